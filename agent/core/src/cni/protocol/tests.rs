use proptest::prelude::*;

use super::super::protocol::*;
use crate::base::id::PodUid;

fn request() -> Request {
    Request {
        pod: PodName {
            namespace: "jobs".to_owned(),
            name: "a-1".to_owned(),
            uid: Some(PodUid::parse("0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11").unwrap()),
        },
        sandbox: SandboxId::parse("0123456789abcdef").unwrap(),
        interface: "eth0".to_owned(),
    }
}

#[test]
fn messages_on_the_wire() {
    let mut request = request();
    let wire = "{\"version\":1,\"namespace\":\"jobs\",\"name\":\"a-1\",\
                \"uid\":\"0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11\",\"containerId\":\"0123456789abcdef\",\
                \"ifname\":\"eth0\"}";
    assert_eq!(request.encode().unwrap(), wire.as_bytes());
    assert_eq!(Request::decode(wire.as_bytes()).unwrap(), request);
    request.pod.uid = None;
    let bytes = request.encode().unwrap();
    assert_eq!(Request::decode(&bytes).unwrap(), request);

    let reply = Reply {
        outcome: Outcome::Held,
        reason: Some("istio".to_owned()),
    };
    let wire = "{\"version\":1,\"outcome\":\"held\",\"reason\":\"istio\"}";
    assert_eq!(reply.encode().unwrap(), wire.as_bytes());
    assert_eq!(Reply::decode(wire.as_bytes()).unwrap(), reply);
    let newer = "{\"version\":1,\"outcome\":\"not-held\",\"since\":{}}";
    assert_eq!(
        Reply::decode(newer.as_bytes()).unwrap().outcome,
        Outcome::NotHeld
    );
}

#[test]
fn invalid_cni_messages() {
    let kind = |text: &str| Request::decode(text.as_bytes()).unwrap_err().kind();
    assert_eq!(kind(""), "json");
    assert_eq!(kind("{}"), "json");
    assert_eq!(kind("{\"version\":2}"), "protocol");
    assert_eq!(kind("{\"version\":1}"), "json");
    let wire = String::from_utf8(request().encode().unwrap()).unwrap();
    assert_eq!(kind(&wire.replace("0123456789abcdef", "../..")), "json");
    assert_eq!(kind(&" ".repeat(LONGEST_MESSAGE + 1)), "too-long");
    let mut long = request();
    let rest = wire.len() - long.interface.len();
    long.interface = "x".repeat(LONGEST_MESSAGE - rest);
    let longest = long.encode().unwrap();
    assert_eq!(longest.len(), LONGEST_MESSAGE);
    assert_eq!(Request::decode(&longest).unwrap(), long);
    long.interface.push('x');
    assert_eq!(long.encode().unwrap_err().kind(), "too-long");
}

#[test]
fn reason_is_bounded() {
    let reply = Reply {
        outcome: Outcome::Failed,
        reason: Some("\u{1}".repeat(LONGEST_MESSAGE)),
    };
    let bytes = reply.encode().unwrap();
    assert!(bytes.len() < LONGEST_MESSAGE);
    let read = Reply::decode(&bytes).unwrap().reason.unwrap();
    assert_eq!(read.len(), LONGEST_REASON);
}

#[test]
fn refusals_and_versions_on_stdout() {
    let failure = Failure {
        code: Code::Configuration,
        message: "a \"b\"".to_owned(),
        details: "c".to_owned(),
    };
    assert_eq!(
        failure.json("0.4.0"),
        "{\"cniVersion\":\"0.4.0\",\"code\":7,\"details\":\"c\",\"msg\":\"a \\\"b\\\"\"}"
    );
    assert_eq!(
        versions("1.1.0"),
        "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\
         \"1.0.0\",\"1.1.0\"]}"
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(Request::decode(&bytes));
        drop(Reply::decode(&bytes));
        if let Ok(text) = String::from_utf8(bytes) {
            drop(Conf::read(&text));
            drop(pod(&text));
        }
    }
}

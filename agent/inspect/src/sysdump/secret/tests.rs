use proptest::prelude::*;

use super::*;

fn of(text: &str) -> String {
    redact_text(text).map_or_else(|| text.to_owned(), |(clean, _)| clean)
}

#[test]
fn secret_names() {
    for name in [
        "DB_PASSWORD",
        "--api-key",
        "clientSecret",
        "AWS_SECRET_ACCESS_KEY",
        "dapr-api-token",
        "authorization",
        "AccountKey",
        "--db-pass",
        "MYSQL_PWD",
        "dbPass",
        "Pwd",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "TOKEN_FILE",
        "secretName",
        "--token-path",
        "PATH",
        "port",
        "monkey",
        "compass",
        "bypass",
        "PWD",
        "OLDPWD",
        "--bypass-pwdx",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn secrets_are_redacted() {
    let web = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl";
    for (text, expected) in [
        (
            "--password=hunter2 --port=80",
            "--password=[redacted] --port=80",
        ),
        ("GET /?a=1&token=abc&b=2", "GET /?a=1&token=[redacted]&b=2"),
        (
            "postgres://me:pw@db:5432/x",
            "postgres://[redacted]@db:5432/x",
        ),
        (
            "Authorization: Bearer abcdefgh and",
            "Authorization: [redacted]",
        ),
        (
            "cookie: a=b; c=d\nHost: x\n",
            "cookie: [redacted]\nHost: x\n",
        ),
        ("sent Bearer abcdefgh once", "sent Bearer [redacted] once"),
        (
            r#"{"token":"abc","a":"b"}"#,
            r#"{"token":"[redacted]","a":"b"}"#,
        ),
        (r#"{"token": "abc"}"#, r#"{"token": "[redacted]"}"#),
        ("token= abc", "token= [redacted]"),
        ("token = abc", "token = [redacted]"),
        (
            "authorization = Bearer abcdefgh, sent",
            "authorization = [redacted] sent",
        ),
        ("Authorization=basic abc -v", "Authorization=[redacted] -v"),
        (
            "db_password  =  \"a b\"\nuser = me",
            "db_password  =  \"[redacted]\"\nuser = me",
        ),
        (
            "proxyMetadata:\n  DB_PASSWORD: \"hunter 2\"\n  - token: a: b\nport: 1",
            "proxyMetadata:\n  DB_PASSWORD: [redacted]\n  - token: [redacted]\nport: 1",
        ),
        (
            "env:\n  PASSWORD: |\n    hunter2\n\n    more\n  - token: >-\n      a\n    user: b\nport: 1",
            "env:\n  PASSWORD: [redacted]\n\n  - token: [redacted]\n    user: b\nport: 1",
        ),
        (
            r#"sh -c "app --password  'hunter2' -v""#,
            r#"sh -c "app --password  '[redacted]' -v""#,
        ),
        (
            r#""{\"password\":\"abc\"}""#,
            r#""{\"password\":\"[redacted]\"}""#,
        ),
        ("key AKIAIOSFODNN7EXAMPLE.", "key [redacted]"),
        // A token of the minimum length.
        ("vault hvs.CAESIJabcdef sent", "vault [redacted] sent"),
        ("a\n-----BEGIN PRIVATE KEY-----\nMII", "a\n[redacted]"),
        (
            "-----BEGIN R{\"token\":\"-----x\":\"a PRIVATE KEY-----",
            "-----BEGIN R{\"token\":\"[redacted]\":\"a PRIVATE KEY-----",
        ),
        (web, "[redacted]"),
        // A value with any character.
        ("--password=Tr0ub4dor&3xyz -v", "--password=[redacted] -v"),
        ("--password=(S3cretPassw0rd", "--password=[redacted]"),
        ("--password (S3cret,Passw0rd -v", "--password [redacted] -v"),
        ("AccountKey=ab+/cd==;x", "AccountKey=[redacted]"),
        ("PASSWORD=a'b\"c d", "PASSWORD=[redacted] d"),
        ("Bearer token=a", "Bearer [redacted]"),
        ("sent Bearer abc(defgh once", "sent Bearer [redacted] once"),
        ("https://me:p&s;s(w'd@host/a", "https://[redacted]@host/a"),
        // A value in quotes, and a value inside quotes.
        (
            r#"{"password": "correct horse"}"#,
            r#"{"password": "[redacted]"}"#,
        ),
        (
            r#"{"password":"a\"b\\","a":1}"#,
            r#"{"password":"[redacted]","a":1}"#,
        ),
        (
            r#"{\"password\":\"a\\\"b c\",\"a\":1}"#,
            r#"{\"password\":\"[redacted]\",\"a\":1}"#,
        ),
        (
            r#"sh -c 'DB_PASSWORD="hunter 2" ./run'"#,
            r#"sh -c 'DB_PASSWORD="[redacted]" ./run'"#,
        ),
        (
            r#"{"cmd":"app --token=a'b&c","user":"bob"}"#,
            r#"{"cmd":"app --token=[redacted]","user":"bob"}"#,
        ),
        ("PASSWORD='hunter 2", "PASSWORD='[redacted]"),
        // Values without quotes, and lists.
        (
            r#"{"token":true,"a":"b"}"#,
            r#"{"token":[redacted],"a":"b"}"#,
        ),
        (r#"{"tokens":["a]", "b"]}"#, r#"{"tokens":[redacted]"#),
        // A header in quotes.
        (
            "curl -H 'X-Auth-Token: abc d' http://a",
            "curl -H 'X-Auth-Token: [redacted]' http://a",
        ),
    ] {
        assert_eq!(of(text), expected, "{text}");
        assert_eq!(
            of(expected),
            expected,
            "twice is the same as once: {expected}"
        );
    }
}

#[test]
fn other_texts_are_kept() {
    for text in [
        "",
        "the token was refused",
        "no token: not found",
        "password:\n  file: /a\nsecretName: b",
        "--tls-token-file=/var/run/token",
        "--tls-token-file /var/run/token",
        "--ask-password --user me",
        "a token that is old",
        "http://127.0.0.1:15020/quitquitquit?a=b@c",
        "basic auth",
        "basic auth: failed",
        r#"{"cmd":"app --token=","user":"bob"}"#,
        r#"{"credentials":{"user":"bob"},"a":1}"#,
        "PASSWORD='' ./run",
        // Words with a token's prefix that are too short, and names with dots that are as long as tokens.
        "hvs.conf, SG.1 and ghp_abcdefghijk",
        "istio-pilot.istio-system.svc.cluster.local:15012",
        r#"field "token" refused: expired"#,
        "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
        "10.0.0.1:80 -> [::1]:90",
        r#"{"containers":["istio-proxy"],"volumes":["credential-socket"]}"#,
    ] {
        assert_eq!(redact_text(text), None, "{text}");
    }
}

/// With quadratic run time this test would not end.
#[test]
fn time_is_linear_in_the_length_of_a_word() {
    let half = 1 << 20;
    for part in [
        "\\",
        "\"",
        "token=\\",
        "token=\"",
        "'token: ",
        "a://b,",
        "--token \\'",
    ] {
        of(&part.repeat(half / part.len()));
    }
    let text = format!("{}://{}@b", "a".repeat(half), ":".repeat(half));
    assert_eq!(of(&text).len(), half + "://[redacted]@b".len());
}

proptest! {
    #[test]
    fn planted_secret_is_redacted(
        before in "[ -~\u{e9}\n]{0,40}",
        after in "[ -~\u{e9}\n]{0,40}",
        // Any visible characters, but those that end a value in quotes, and a flag.
        secret in "[!#-&(-,.-\\[\\]-~][!#-&(-\\[\\]-~]{19}",
        any in "[!#-&(-,.-\\[\\]-~][!-~]{19}",
        plain in "[A-Za-z0-9]{20}",
    ) {
        for (secret, text) in [
            (&any, format!("{before}\n--password={any} {after}")),
            (&secret, format!("{before}\n--password={secret} {after}")),
            (&secret, format!("{before}\n--password {secret} {after}")),
            (&secret, format!("{before}\nsh -c \"app --password={secret}\" {after}")),
            (&secret, format!("{before}\nAuthorization: Bearer {secret}\n{after}")),
            (&secret, format!("{before}\ncurl -H 'X-Auth-Token: {secret}' {after}")),
            (&secret, format!("{before}\n{{\"token\":\"{secret}\"}} {after}")),
            (&secret, format!("{before}\n{{\"token\": \"a {secret}\"}} {after}")),
            (&plain, format!("{before}\nhttps://user:{plain}@host/ {after}")),
            (&plain, format!("{before}\nghp_{plain} {after}")),
        ] {
            let (clean, count) = redact_text(&text).unwrap();
            prop_assert!(!clean.contains(secret), "{clean:?}");
            prop_assert!(count >= 1);
        }
    }

    #[test]
    fn nothing_of_a_value_is_left(secret in "[!#-&(-,.-\\[\\]-~][!#-&(-\\[\\]-~]{19}") {
        for (text, expected) in [
            (format!("--password={secret} -v"), "--password=[redacted] -v"),
            (format!("--password {secret} -v"), "--password [redacted] -v"),
            (format!("sh -c \"app --password={secret}\" -v"), "sh -c \"app --password=[redacted]\" -v"),
            (format!("curl -H 'X-Auth-Token: {secret}' -v"), "curl -H 'X-Auth-Token: [redacted]' -v"),
            (format!("{{\"token\": \"a {secret}\"}}"), "{\"token\": \"[redacted]\"}"),
        ] {
            prop_assert_eq!(of(&text), expected);
        }
    }

    #[test]
    fn words_around_secrets_are_redacted_once(
        text in "(token|pass|[ =:\"'\\\\&?,;(\\[\\]{}a-]|AKIAIOSFODNN7EXAMPLE|x://a:b@c|Bearer |-H |\n){0,24}",
    ) {
        let once = of(&text);
        prop_assert_eq!(of(&once), once.clone(), "{:?}", text);
    }

    #[test]
    fn redaction_is_idempotent(text: String) {
        let once = of(&text);
        prop_assert_eq!(of(&once), once.clone());
    }
}

//! What people and programs are shown, to the letter.

use super::super::tests::*;
use crate::text::table::{Cell, Table, Tone};

/// No process of the pod's.
const STRANGER: usize = 9;

/// A pod with every kind of row.
fn stage() -> Stage {
    let mut stage = Stage::new();
    let queues = |stage: &mut Stage, place: usize, receive, send| {
        let socket = &mut stage.scene.sockets[place];
        (socket.receive_queue, socket.send_queue) = (receive, send);
    };
    let with_timer = |stage: &mut Stage, place: usize, kind, left| {
        let left = Duration::from_millis(left);
        stage.scene.sockets[place].timer = Some(Timer { kind, left });
    };
    // The kernel lets one more wait than it says.
    for (owner, local, length) in [
        (APP, "[::]:8080", 129),
        (MESH, "127.0.0.1:15001", 128),
        (MESH, "0.0.0.0:15020", 0),
    ] {
        let listener = stage.listener(owner, local);
        queues(&mut stage, listener, length, 128);
    }
    // Through the mesh, in from it and to it, with the mesh's ends.
    let through = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    queues(&mut stage, through, 17, 1448);
    with_timer(&mut stage, through, TimerKind::Keepalive, 7459);
    let socket = &mut stage.scene.sockets[through];
    (socket.uid, socket.rtt) = (1000, Some(Duration::from_micros(12_034)));
    (socket.retransmits, socket.all_retransmits) = (1, Some(3));
    stage.connection(MESH, "127.0.0.1:15001", "pod:40000");
    stage.connection(APP, "pod:8080", "127.0.0.6:45678");
    stage.connection(MESH, "127.0.0.6:45678", "pod:8080");
    stage.connection(APP, "127.0.0.1:40001", "127.0.0.1:15020");
    stage.connection(MESH, "127.0.0.1:15020", "127.0.0.1:40001");
    // Redirected to somebody who is not in the pod.
    stage.connection(APP, "pod:40002", "10.9.9.9:80");
    stage.connection(STRANGER, "127.0.0.1:9000", "pod:40002");
    stage.connection(APP, "pod:40003", "10.9.9.9:81");
    let asks = stage.socket(Some(APP), State::SynSent, "pod:40004", "10.9.9.9:82");
    with_timer(&mut stage, asks, TimerKind::Retransmit, 950);
    stage.scene.sockets[asks].retransmits = 2;
    stage.socket(None, State::FinWait2, "pod:40005", "10.9.9.9:80");
    let datagrams = stage.socket(Some(APP), State::Unconnected, "pod:5353", "0.0.0.0:0");
    let socket = &mut stage.scene.sockets[datagrams];
    (socket.protocol, socket.drops) = (Protocol::Udp, Some(7));
    // Left out.
    for port in [40006, 40007] {
        stage.socket(None, State::TimeWait, &format!("pod:{port}"), "10.9.9.9:80");
    }
    stage.socket(Some(APP), State::Unconnected, "0.0.0.0:0", "0.0.0.0:0");
    stage
}

fn conns(stage: &Stage, filter: &Filter) -> Conns {
    let conns = Conns {
        pod: "shop/cart".to_owned(),
        uid: "2f6e".to_owned(),
        containers: vec!["app".to_owned(), "istio-proxy".to_owned()],
        sockets: stage.scene.judge(),
        ..Conns::default()
    };
    conns.filtered(filter)
}

/// A cell in one text: how it is coloured comes first.
fn drawn(cell: &Cell) -> String {
    let sign = match cell.tone {
        Tone::Plain => "",
        Tone::Good => "+",
        Tone::Bad => "!",
        Tone::Faint => "~",
        Tone::Warn | Tone::Strong => panic!("{cell:?}"),
    };
    format!("{sign}{}", cell.text)
}

fn lines(table: &Table) -> Vec<String> {
    let lead = table.lead.iter().map(drawn);
    let rows = table.rows.iter().map(|cells| {
        let cells: Vec<String> = cells.iter().map(drawn).collect();
        cells.join(" | ")
    });
    lead.chain([table.columns.join(" | ")])
        .chain(rows)
        .collect()
}

#[test]
fn tables_as_people_see_them() {
    let conns = conns(&stage(), &Filter::default());
    let wide = conns.table(true);
    let text = lines(&wide).join("\n") + "\n";
    assert_eq!(text, include_str!("wide.txt"), "\n{text}");
    // The narrow one ends with the way, and gives no reasons.
    let mut expected = wide;
    expected.columns.truncate(9);
    for row in &mut expected.rows {
        row.truncate(9);
        let way = &mut row[8].text;
        way.truncate(way.find(" (").unwrap_or(way.len()));
    }
    assert_eq!(conns.table(false), expected);
}

#[test]
fn whose_a_socket_is_may_be_hidden() {
    let mut stage = Stage::new();
    stage.connection(STRANGER, "pod:40000", "10.9.9.9:80");
    for (is_blind, process, owner) in [
        (false, "(outside of the pod)", "outside"),
        (true, "?", "unseen"),
    ] {
        stage.scene.is_blind = is_blind;
        let conns = conns(&stage, &Filter::default());
        let row = &conns.sockets[0];
        assert_eq!(
            (row.process_text().as_str(), conns.unattributed),
            (process, 1)
        );
        assert_eq!(serde_json::json!(row.owner), owner);
    }
}

#[test]
fn remarks_tell_what_the_table_does_not() {
    let mut conns = conns(&stage(), &Filter::default());
    let counts = [
        "2 in TIME-WAIT not shown (--all)",
        "1 without an address not shown (--all)",
        "2 belong to no container of the pod: they are closed, or held from outside of it",
    ];
    assert_eq!(conns.remarks(), counts);
    conns.host_network = true;
    conns.gaps = vec!["sockets: permission denied".to_owned()];
    let network = "the pod uses the node's network: only sockets that its own processes hold, or \
                   that were made in its containers, are shown";
    let mut expected = vec![network];
    expected.extend(counts);
    expected.push("sockets: permission denied");
    assert_eq!(conns.remarks(), expected);
}

#[test]
fn a_pod_without_sockets() {
    let conns = conns(&Stage::new(), &Filter::default());
    let expected = [
        "~no sockets of this kind in shop/cart",
        "PROTO | STATE | RECV-Q | SEND-Q | LOCAL | PEER | CONTAINER | PROCESS | VIA",
    ];
    assert_eq!(lines(&conns.table(false)), expected);
    assert_eq!(conns.remarks(), [""; 0]);
}

/// Others read it: names and what is left out are promises.
#[test]
fn json_as_programs_see_it() {
    let filter = Filter {
        ports: vec![8080, 40000, 40005],
        ..Filter::default()
    };
    let text = serde_json::to_string_pretty(&conns(&stage(), &filter)).unwrap() + "\n";
    assert_eq!(text, include_str!("report.json"), "\n{text}");
}

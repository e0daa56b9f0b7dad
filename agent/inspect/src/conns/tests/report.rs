//! The exact table and JSON document.

use super::super::tests::*;
use crate::text::table::{Cell, Table, Tone};

/// A process outside of the pod.
const STRANGER: usize = 9;

/// A pod with every kind of row.
fn stage() -> Stage {
    let mut stage = Stage::new();
    let queues = |stage: &mut Stage, place: usize, receive, send| {
        let socket = &mut stage.input.sockets[place];
        (socket.receive_queue, socket.send_queue) = (receive, send);
    };
    let with_timer = |stage: &mut Stage, place: usize, kind, left| {
        let left = Duration::from_millis(left);
        stage.input.sockets[place].timer = Some(Timer { kind, left });
    };
    // The kernel accepts one more connection than the limit.
    for (owner, local, length) in [
        (APP, "[::]:8080", 129),
        (MESH, "127.0.0.1:15001", 128),
        (MESH, "0.0.0.0:15020", 0),
    ] {
        let listener = stage.listener(owner, local);
        queues(&mut stage, listener, length, 128);
    }
    // Connections through, from and to the mesh, with the proxy's ends.
    let through = stage.connection(APP, "pod:40000", "10.9.9.9:80");
    queues(&mut stage, through, 17, 1448);
    with_timer(&mut stage, through, TimerKind::Keepalive, 7459);
    let socket = &mut stage.input.sockets[through];
    (socket.uid, socket.rtt) = (1000, Some(Duration::from_micros(12_034)));
    (socket.retransmits, socket.all_retransmits) = (1, Some(3));
    stage.connection(MESH, "127.0.0.1:15001", "pod:40000");
    stage.connection(APP, "pod:8080", "127.0.0.6:45678");
    stage.connection(MESH, "127.0.0.6:45678", "pod:8080");
    stage.connection(APP, "127.0.0.1:40001", "127.0.0.1:15020");
    stage.connection(MESH, "127.0.0.1:15020", "127.0.0.1:40001");
    // Redirected to a process outside of the pod.
    stage.connection(APP, "pod:40002", "10.9.9.9:80");
    stage.connection(STRANGER, "127.0.0.1:9000", "pod:40002");
    stage.connection(APP, "pod:40003", "10.9.9.9:81");
    let connecting = stage.socket(Some(APP), State::SynSent, "pod:40004", "10.9.9.9:82");
    with_timer(&mut stage, connecting, TimerKind::Retransmit, 950);
    stage.input.sockets[connecting].retransmits = 2;
    stage.socket(None, State::FinWait2, "pod:40005", "10.9.9.9:80");
    let datagrams = stage.socket(Some(APP), State::Unconnected, "pod:5353", "0.0.0.0:0");
    let socket = &mut stage.input.sockets[datagrams];
    (socket.protocol, socket.drops) = (Protocol::Udp, Some(7));
    // Sockets that the report does not list.
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
        sockets: stage.input.judge(),
        ..Conns::default()
    };
    conns.filtered(filter)
}

/// A cell as text, with a mark for its tone.
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
fn tables_are_exact() {
    let conns = conns(&stage(), &Filter::default());
    let wide = conns.table(true);
    let text = lines(&wide).join("\n") + "\n";
    assert_eq!(text, include_str!("wide.txt"), "\n{text}");
    // The narrow table ends with VIA, without reasons.
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
fn unreadable_descriptors_make_the_owner_unknown() {
    let mut stage = Stage::new();
    stage.connection(STRANGER, "pod:40000", "10.9.9.9:80");
    for (is_blind, process, owner) in [
        (false, "(outside of the pod)", "outside"),
        (true, "?", "unseen"),
    ] {
        stage.input.is_blind = is_blind;
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
fn remarks_list_what_the_table_omits() {
    let mut conns = conns(&stage(), &Filter::default());
    let counts = [
        "2 sockets in TIME-WAIT not listed (--all)",
        "1 sockets without an address not listed (--all)",
        "2 sockets belong to no container of the pod: they are closed, or held by a process outside of the pod",
    ];
    assert_eq!(conns.remarks(), counts);
    conns.host_network = true;
    conns.gaps = vec!["sockets: permission denied".to_owned()];
    let network = "the pod uses the node's network: only sockets that its processes hold, or that \
                   were created in its containers, are listed";
    let mut expected = vec![network];
    expected.extend(counts);
    expected.push("sockets: permission denied");
    assert_eq!(conns.remarks(), expected);
}

#[test]
fn pod_without_sockets() {
    let conns = conns(&Stage::new(), &Filter::default());
    let expected = [
        "~no matching sockets in shop/cart",
        "PROTO | STATE | RECV-Q | SEND-Q | LOCAL | PEER | CONTAINER | PROCESS | VIA",
    ];
    assert_eq!(lines(&conns.table(false)), expected);
    assert_eq!(conns.remarks(), [""; 0]);
}

/// The field names and the omission of fields are an API for programs.
#[test]
fn json_is_exact() {
    let filter = Filter {
        ports: vec![8080, 40000, 40005],
        ..Filter::default()
    };
    let text = serde_json::to_string_pretty(&conns(&stage(), &filter)).unwrap() + "\n";
    assert_eq!(text, include_str!("report.json"), "\n{text}");
}

use super::*;

/// Appends an entry with this target name and the verdict of a standard target.
fn put_entry(layout: &Layout, out: &mut Vec<u8>, name: &[u8], verdict: i32, flags: u8) {
    let start = out.len();
    let mut target = vec![0; 40];
    target[TARGET_NAME..TARGET_NAME + name.len()].copy_from_slice(name);
    target[TARGET_VERDICT..TARGET_VERDICT + 4].copy_from_slice(&verdict.to_ne_bytes());
    // One match of 48 bytes.
    let target_offset = layout.header + 48;
    let length = target_offset + target.len();
    out.resize(start + target_offset, 0);
    out[start + layout.header..][..2].copy_from_slice(&48_u16.to_ne_bytes());
    out[start + layout.flags] = flags;
    let short = |number| u16::try_from(number).unwrap().to_ne_bytes();
    out[start + layout.target_offset..][..2].copy_from_slice(&short(target_offset));
    out[start + layout.next_offset..][..2].copy_from_slice(&short(length));
    out.extend_from_slice(&target);
}

/// A chain at the output hook that jumps and goes to a user-defined chain, and the hook's policy.
fn table(layout: &Layout) -> (TableInfo, Vec<u8>) {
    let length = layout.header + 48 + 40;
    let target = i32::try_from(5 * length).unwrap();
    let mut bytes = Vec::new();
    put_entry(layout, &mut bytes, b"", target, 0);
    put_entry(layout, &mut bytes, b"", target, layout.goto);
    put_entry(
        layout,
        &mut bytes,
        b"",
        i32::try_from(3 * length).unwrap(),
        0,
    );
    put_entry(layout, &mut bytes, b"", -2, 0);
    put_entry(layout, &mut bytes, ERROR, 0, 0);
    put_entry(layout, &mut bytes, b"REDIRECT", 0, 0);
    put_entry(layout, &mut bytes, b"", -5, 0);
    put_entry(layout, &mut bytes, ERROR, 0, 0);
    let info = TableInfo {
        hooks: [None, None, None, Some(0), None],
        entries: 8,
        bytes: bytes.len(),
    };
    (info, bytes)
}

#[test]
fn jumps_and_gotos_of_a_table() {
    for layout in [Layout::IPV4, Layout::IPV6] {
        let (info, bytes) = table(&layout);
        let mut filter = PacketFilter::default();
        add(&mut filter, &layout, &info, &bytes);
        let rule = |expressions, branch: Option<Branch>| Rule {
            expressions,
            branches: branch.into_iter().collect(),
        };
        let output = Hook {
            point: Point::Output,
            ipv4: layout.family == AddressFamily::Inet,
            ipv6: layout.family == AddressFamily::Inet6,
        };
        let first = Chain {
            hook: Some(output),
            rules: vec![
                rule(17, Some(Branch::Jump(1))),
                rule(17, Some(Branch::Goto(1))),
                rule(17, None),
                rule(17, None),
            ],
        };
        let second = Chain {
            hook: None,
            rules: vec![rule(33, None), rule(17, None)],
        };
        assert_eq!(filter.chains, [first, second]);
    }
}

#[test]
fn hooks_share_a_chain() {
    let (mut info, bytes) = table(&Layout::IPV4);
    info.hooks[1] = info.hooks[3];
    let mut filter = PacketFilter::default();
    add(&mut filter, &Layout::IPV4, &info, &bytes);
    let [input, output] = [Point::Input, Point::Output].map(|point| filter.evaluations_at(point));
    assert_eq!(input, output);
    assert_eq!(filter.evaluations(), 2 * output);
}

#[test]
fn any_bytes_are_accepted() {
    let layout = Layout::IPV4;
    let (info, bytes) = table(&layout);
    for end in 0..bytes.len() {
        add(&mut PacketFilter::default(), &layout, &info, &bytes[..end]);
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            add(&mut PacketFilter::default(), &layout, &info, &changed);
        }
    }
}

#[test]
fn information_about_a_table() {
    let mut bytes = vec![0; TableInfo::LENGTH];
    let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    put(VALID_HOOKS, 0b01000);
    put(HOOK_ENTRIES + 12, 7);
    put(ENTRY_COUNT, 3);
    put(SIZE, 600);
    let expected = TableInfo {
        hooks: [None, None, None, Some(7), None],
        entries: 3,
        bytes: 600,
    };
    assert_eq!(TableInfo::read(&bytes), Some(expected));
    assert_eq!(TableInfo::read(&bytes[..83]), None);
}

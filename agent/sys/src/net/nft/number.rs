//! Message types and attributes of nftables
//! ([`include/uapi/linux/netfilter/nf_tables.h`](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/netfilter/nf_tables.h)).
//! The attributes of expressions are in their codec.

/// The subsystem, which is the upper byte of a message type.
pub(super) const SUBSYSTEM: u16 = 10;
pub(super) const TABLE_NEW: u16 = SUBSYSTEM << 8;
pub(super) const TABLE_GET: u16 = TABLE_NEW | 1;
pub(super) const TABLE_DELETE: u16 = TABLE_NEW | 2;
pub(super) const CHAIN_NEW: u16 = TABLE_NEW | 3;
pub(super) const CHAIN_GET: u16 = TABLE_NEW | 4;
pub(super) const RULE_NEW: u16 = TABLE_NEW | 6;
pub(super) const RULE_GET: u16 = TABLE_NEW | 7;
pub(super) const SET_NEW: u16 = TABLE_NEW | 9;
pub(super) const SET_GET: u16 = TABLE_NEW | 10;
pub(super) const ELEMENTS_NEW: u16 = TABLE_NEW | 12;
pub(super) const ELEMENTS_GET: u16 = TABLE_NEW | 13;
pub(super) const ELEMENTS_DELETE: u16 = TABLE_NEW | 14;
pub(super) const GENERATION_NEW: u16 = TABLE_NEW | 15;
pub(super) const GENERATION_GET: u16 = TABLE_NEW | 16;
pub(super) const BATCH_BEGIN: u16 = 16;
pub(super) const BATCH_END: u16 = 17;

/// `NFPROTO_INET`: IPv4 and IPv6.
pub(super) const FAMILY: u8 = 1;
/// Length of `struct nfgenmsg`.
pub(super) const HEADER: usize = 4;

/// Attribute of all messages: name of the table.
pub(super) const NAME_OF_TABLE: u16 = 1;
/// Attribute of messages about chains and sets: name.
pub(super) const NAME: u16 = 2;

/// Attributes and values of sets.
pub(super) mod set {
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LENGTH: u16 = 5;
    pub(crate) const ID: u16 = 10;
    /// Elements can have a timeout.
    pub(crate) const HAS_TIMEOUTS: u32 = 0x10;
    /// nft's number of the type; the kernel only stores it.
    pub(crate) const PROTOCOL: u32 = 12;
    pub(crate) const SERVICE: u32 = 13;
}

/// Attributes of elements, outermost first.
pub(super) mod element {
    pub(crate) const ALL: u16 = 3;
    pub(crate) const ONE: u16 = 1;
    pub(crate) const KEY: u16 = 1;
    pub(crate) const DATA: u16 = 2;
    pub(crate) const VALUE: u16 = 1;
    pub(crate) const TIMEOUT: u16 = 4;
    /// Remaining time in milliseconds.
    pub(crate) const LEFT: u16 = 5;
}

/// Attributes and values of chains.
pub(super) mod chain {
    pub(crate) const NAME: u16 = 3;
    pub(crate) const HOOK: u16 = 4;
    pub(crate) const POLICY: u16 = 5;
    /// The number of rules of a chain, and of verdicts that name it.
    pub(crate) const USE: u16 = 6;
    pub(crate) const TYPE: u16 = 7;
    pub(crate) const HOOK_NUMBER: u16 = 1;
    pub(crate) const PRIORITY: u16 = 2;
    pub(crate) const OUTPUT: u32 = 3;
    pub(crate) const ACCEPT: u32 = 1;
    pub(crate) const FILTER: &str = "filter";
}

/// Attributes of rules.
pub(super) mod rules {
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const EXPRESSIONS: u16 = 4;
}

/// Attributes and values of verdicts.
pub(super) mod verdict {
    pub(crate) const DATA: u16 = 2;
    pub(crate) const CODE: u16 = 1;
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const JUMP: i32 = -3;
    pub(crate) const GOTO: i32 = -4;
}

/// Attribute of the generation of all rules.
pub(super) const GENERATION: u16 = 1;

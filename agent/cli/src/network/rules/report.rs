//! The report of `usher rules`.

use serde::{Deserialize, Serialize};
use usher_core::{
    admin::PlannedTable,
    hold::ruleset::{Piece, Ruleset, TABLE, drift},
};
use usher_inspect::text::table::{self, Cell, Tone};

use crate::output::Report;

/// The nftables rules in a pod's network namespace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rules {
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) netns: String,
    /// `inet usher`; absent when nothing is held and nothing is counted.
    pub(super) table: Option<Table>,
    pub(super) others: Vec<Foreign>,
    /// Number of chains that are not in `others`.
    pub(super) others_left_out: usize,
    /// Tables of iptables-legacy, whose rules nftables does not show.
    pub(super) legacy_tables: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compared: Option<Compared>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    /// In nft syntax.
    pub(super) text: String,
    /// Packets that the table counted.
    pub(super) packets: u64,
    pub(super) expires: Vec<Expiry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expiry {
    pub(super) set: String,
    pub(super) value: u16,
    pub(super) left_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Foreign {
    pub(super) family: String,
    pub(super) table: String,
    pub(super) chain: String,
    pub(super) entry: Option<String>,
    pub(super) rules: usize,
}

/// The comparison with the table that the agent wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Compared {
    /// Whether the agent wants a table.
    wanted: bool,
    /// Wanted, but not in the kernel.
    missing: Vec<String>,
    /// In the kernel, but not wanted.
    surplus: Vec<String>,
}

impl Rules {
    /// Adds the comparison with the wanted table, and returns whether they differ.
    pub(super) fn differ(&mut self, planned: &PlannedTable, found: &Option<Ruleset>) -> bool {
        let wanted = planned.wanted.as_ref().map(Ruleset::of);
        let nothing = Ruleset::default();
        let diff = drift(
            found.as_ref().unwrap_or(&nothing),
            wanted.as_ref().unwrap_or(&nothing),
        );
        let texts = |pieces: &[Piece]| pieces.iter().map(ToString::to_string).collect();
        let mut missing: Vec<String> = texts(&diff.missing);
        let mut surplus: Vec<String> = texts(&diff.surplus);
        let table = || format!("table inet {TABLE}");
        // An empty table has no parts that could differ.
        match (found, &wanted) {
            (Some(_), None) => surplus.insert(0, table()),
            (None, Some(_)) => missing.insert(0, table()),
            (None, None) | (Some(_), Some(_)) => {}
        }
        let differs = !missing.is_empty() || !surplus.is_empty();
        self.compared = Some(Compared {
            wanted: planned.wanted.is_some(),
            missing,
            surplus,
        });
        differs
    }
}

impl Report for Rules {
    const KIND: &'static str = "Rules";

    fn table(&self, wide: bool) -> table::Table {
        let mut table = table::Table::new(["FAMILY", "TABLE", "CHAIN", "ENTRY", "RULES"]);
        let title = if wide {
            format!(
                "{} (uid {}, network namespace {})",
                self.pod, self.uid, self.netns
            )
        } else {
            self.pod.clone()
        };
        table.lead(Cell::new(title, Tone::Strong));
        match &self.table {
            None => table.lead("no table inet usher: nothing is held, and nothing is counted"),
            Some(own) => own.lead(&mut table),
        }
        for other in &self.others {
            table.row([
                other.family.clone().into(),
                other.table.clone().into(),
                other.chain.clone().into(),
                Cell::or_dash(other.entry.clone()),
                other.rules.to_string().into(),
            ]);
        }
        if self.others.is_empty() {
            table.lead(Cell::new(
                "no rules of other programs, as far as nftables shows them",
                Tone::Faint,
            ));
        } else {
            table.lead("rules of other programs:");
        }
        if self.others_left_out > 0 {
            table.note(format!("and {} more chains", self.others_left_out));
        }
        if !self.legacy_tables.is_empty() {
            let text = format!(
                "tables of iptables-legacy exist; nftables does not show their rules: {}",
                self.legacy_tables.join(", ")
            );
            table.note(Cell::new(text, Tone::Warn));
        }
        if let Some(compared) = &self.compared {
            compared.note(&mut table);
        }
        table
    }
}

impl Table {
    fn lead(&self, table: &mut table::Table) {
        for line in self.text.lines() {
            // A tab would be escaped.
            table.lead(line.replace('\t', "    "));
        }
        for Expiry {
            set,
            value,
            left_ms,
        } in &self.expires
        {
            let text = format!("{value} in set {set} expires in {left_ms} ms");
            table.lead(text);
        }
        table.lead(format!("{} packets counted", self.packets));
    }
}

impl Compared {
    fn note(&self, table: &mut table::Table) {
        if self.missing.is_empty() && self.surplus.is_empty() {
            let wanted = if self.wanted {
                "as the agent wants it"
            } else {
                "no table is wanted, and none exists"
            };
            table.note(Cell::new(format!("no drift: {wanted}"), Tone::Good));
            return;
        }
        for piece in &self.missing {
            table.note(Cell::new(format!("- missing: {piece}"), Tone::Bad));
        }
        for piece in &self.surplus {
            table.note(Cell::new(format!("+ surplus: {piece}"), Tone::Bad));
        }
        table.note(Cell::new(
            "drift: run usher rules POD --fix to repair the table",
            Tone::Warn,
        ));
    }
}

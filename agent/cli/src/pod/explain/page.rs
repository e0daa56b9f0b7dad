//! An explanation as a page: the state, then each problem with its evidence and its fix, then the pod's history.

use serde::{Deserialize, Serialize};
use usher_core::admin::Role;
use usher_inspect::{
    explain::{Explanation, Finding, Member, Moment, Severity, Verdict, clock, network, span},
    text::table::{Cell, Table, Tone},
};

use crate::output::Report;

/// The columns of the timeline.
const COLUMNS: [&str; 7] = ["TIME", "AFTER", "FROM", "WHAT", "CONTAINER", "TOOK", "WHY"];

/// The problems of a pod, without its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Diagnosis {
    namespace: String,
    name: String,
    verdict: Verdict,
    findings: Vec<Finding>,
    /// Data that could not be read.
    unseen: Vec<String>,
}

impl From<Explanation> for Diagnosis {
    fn from(explanation: Explanation) -> Self {
        Self {
            namespace: explanation.namespace,
            name: explanation.name,
            verdict: explanation.verdict,
            findings: explanation.findings,
            unseen: explanation.unseen,
        }
    }
}

impl Report for Diagnosis {
    const KIND: &'static str = "Diagnosis";

    fn table(&self, wide: bool) -> Table {
        let mut table = Table::default();
        let pod = format!("{}/{}", self.namespace, self.name);
        table.lead(headline(&pod, &self.verdict, &self.findings));
        findings(&mut table, &self.findings, wide);
        if wide {
            section(&mut table.notes, "not visible", self.unseen.iter().cloned());
        }
        table
    }
}

impl Report for Explanation {
    const KIND: &'static str = "Explanation";

    fn table(&self, wide: bool) -> Table {
        let mut table = Table::default();
        if self.is_gone {
            table.lead(format!("{}: {}", self.pod(), self.verdict.message));
            table.lead(Cell::default());
            table.columns = COLUMNS.to_vec();
            table.rows = self.timeline.iter().map(moment).collect();
            return table;
        }
        table.lead(headline(&self.pod(), &self.verdict, &self.findings));
        findings(&mut table, &self.findings, wide);
        if self.verdict.healthy && !wide {
            return table;
        }
        let containers = self.containers.iter().map(|member| container(member, wide));
        let mut lead = std::mem::take(&mut table.lead);
        section(&mut lead, "containers", containers);
        let policy = format!("restartPolicy {}", self.restart_policy);
        let owner = self
            .owner
            .iter()
            .map(|owner| format!("controlled by {owner}"));
        let uid = format!("uid {}", self.uid);
        let about = owner.chain([policy, uid]).chain(self.modes.iter().cloned());
        section(&mut lead, "pod", about);
        if wide {
            section(
                &mut lead,
                "network",
                self.network.iter().flat_map(network::lines),
            );
        }
        if !self.timeline.is_empty() {
            lead.push(Cell::default());
            lead.push(Cell::new("timeline", Tone::Strong));
        }
        table.lead = lead;
        table.columns = COLUMNS.to_vec();
        table.rows = self.timeline.iter().map(moment).collect();
        let changes = self.changes.iter().flat_map(|change| {
            let first = format!("{}:", change.then);
            let then = change.when.lines().map(|line| format!("  {line}"));
            [first].into_iter().chain(then).collect::<Vec<_>>()
        });
        section(&mut table.notes, "what would change this", changes);
        section(&mut table.notes, "not visible", self.unseen.iter().cloned());
        table
    }
}

/// The state of the pod, in one line.
fn headline(pod: &str, verdict: &Verdict, findings: &[Finding]) -> Cell {
    let troubles = findings
        .iter()
        .filter(|finding| finding.severity.is_trouble())
        .count();
    let (word, tone) = match (verdict.healthy, troubles) {
        (true, _) => ("healthy".to_owned(), Tone::Good),
        (false, 0) => (
            "unhealthy, with no cause found in its mesh".to_owned(),
            Tone::Warn,
        ),
        (false, 1) => ("1 problem".to_owned(), Tone::Bad),
        (false, many) => (format!("{many} problems"), Tone::Bad),
    };
    Cell::new(format!("{pod}: {word}; {}", verdict.message), tone)
}

/// The findings. Hints next to a problem need `-o wide`.
fn findings(table: &mut Table, findings: &[Finding], wide: bool) {
    let troubles = findings.iter().any(|finding| finding.severity.is_trouble());
    let shown = |finding: &&Finding| wide || !troubles || finding.severity.is_trouble();
    for finding in findings.iter().filter(shown) {
        let tone = match finding.severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Warn,
            Severity::Hint => Tone::Faint,
        };
        table.lead("");
        table.lead(Cell::new(
            format!("{}: {}", finding.severity.as_str(), finding.problem),
            tone,
        ));
        for evidence in &finding.evidence {
            table.lead(format!(
                "  evidence  {}: {}",
                evidence.source, evidence.message
            ));
        }
        table.lead(format!("  fix       {}", finding.remedy));
        for line in finding.how.lines() {
            table.lead(Cell::new(format!("            {line}"), Tone::Strong));
        }
        table.lead(Cell::new(
            format!("  docs      {}", finding.docs),
            Tone::Faint,
        ));
    }
}

fn section(lines: &mut Vec<Cell>, title: &'static str, content: impl IntoIterator<Item = String>) {
    let mut content = content.into_iter().peekable();
    if content.peek().is_none() {
        return;
    }
    lines.push(Cell::default());
    lines.push(Cell::new(title, Tone::Strong));
    lines.extend(content.map(|line| Cell::from(format!("  {line}"))));
}

fn container(member: &Member, wide: bool) -> String {
    let role = match (&member.recipe, member.role) {
        (Some(recipe), Role::SelfEnding) => format!("ends by itself ({recipe})"),
        (Some(recipe), _) => format!("sidecar ({recipe})"),
        (None, Role::Native) => "native sidecar".to_owned(),
        (None, role) => role.into_str().to_owned(),
    };
    let restarts = match member.restarts {
        0 => String::new(),
        1 => ", restarted once".to_owned(),
        many => format!(", restarted {many} times"),
    };
    let more = if wide {
        let pid = member
            .pid
            .map_or(String::new(), |pid| format!(", pid {pid}"));
        format!(", {}{pid}", member.image)
    } else {
        String::new()
    };
    format!("{}: {role}, {}{restarts}{more}", member.name, member.state)
}

fn moment(moment: &Moment) -> Vec<Cell> {
    vec![
        clock(moment.at_ms).into(),
        format!("+{}", span(moment.after_ms)).into(),
        Cell::new(moment.from.as_str(), Tone::Faint),
        moment.what.clone().into(),
        Cell::or_dash(moment.container.clone()),
        Cell::or_dash(moment.took_ms.map(took)),
        moment.message.clone().into(),
    ]
}

/// The kubelet's times have whole seconds.
fn took(ms: u64) -> String {
    match ms {
        0 => "< 1 s".to_owned(),
        ms => span(ms),
    }
}

//! The table of a plan.

use usher_core::{
    admin::{Acts, Allowed, Forecast, Hold, LadderStep, Linger, Sidecar},
    recipe::ExitCode,
};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::output::Report;

impl Report for Forecast {
    const KIND: &'static str = "Plan";

    fn table(&self, wide: bool) -> Table {
        let mut columns = vec![
            "SIDECAR",
            "STAGE",
            "STEP",
            "DOES",
            "EXIT",
            "TAKES",
            "NEXT-AFTER",
            "MAY",
            "THERE",
        ];
        if wide {
            columns.push("WHY");
        }
        let mut table = Table::new(columns);
        table.lead(Cell::new(self.pod.clone(), Tone::Strong));
        if let Some(mode) = &self.what_if {
            let text = format!("if the node's mode were {mode}:");
            table.lead(Cell::new(text, Tone::Warn));
        }
        table.lead(acts("quit", self.quit.acts, &self.quit.mode));
        for why in &self.quit.because {
            table.lead(format!("  {why}"));
        }
        for sidecar in &self.quit.sidecars {
            table.lead(recognized(sidecar));
            for (place, ladder_step) in sidecar.ladder.iter().enumerate() {
                table.row(row(sidecar, place, ladder_step, wide));
            }
        }
        for container in &self.quit.self_ending {
            table.lead(format!(
                "  {container}: ends by itself once the other containers have ended; not waited for and not terminated"
            ));
        }
        for sidecar in &self.quit.sidecars {
            explain(sidecar, &mut table);
        }
        hold(&self.hold, &mut table);
        if let Some(requested) = &self.linger {
            linger(requested, &mut table);
        }
        for ignored in &self.ignored {
            table.note(Cell::new(format!("ignored: {ignored}"), Tone::Warn));
        }
        for unknown in &self.unknown {
            let text = format!("unknown, treated as absent: {unknown}");
            table.note(Cell::new(text, Tone::Warn));
        }
        table
    }
}

fn acts(what: &str, acts: Acts, mode: &str) -> Cell {
    let tone = match acts {
        Acts::Now => Tone::Good,
        Acts::Later => Tone::Plain,
        Acts::No => Tone::Warn,
    };
    Cell::new(format!("{what}: {} (mode {mode})", acts.into_str()), tone)
}

fn recognized(sidecar: &Sidecar) -> Cell {
    let Sidecar {
        container,
        recipe,
        recognized_by,
        version,
        runs,
        ..
    } = sidecar;
    let version = match version {
        Some(version) => format!(", version {version}"),
        None => String::new(),
    };
    let runs = if *runs { "" } else { ", not running" };
    format!("  {container}: recipe {recipe}, recognized by {recognized_by}{version}{runs}").into()
}

fn row(sidecar: &Sidecar, place: usize, ladder_step: &LadderStep, wide: bool) -> Vec<Cell> {
    let may = match ladder_step.allowed {
        Allowed::Yes => Cell::new("yes", Tone::Good),
        Allowed::Depends => Cell::new("depends", Tone::Warn),
        Allowed::No => Cell::new("no", Tone::Bad),
    };
    let mut row = vec![
        sidecar.container.clone().into(),
        sidecar.stage.clone().into(),
        (place + 1).to_string().into(),
        ladder_step.step.clone().into(),
        ExitCode::from(ladder_step.exit_code).to_string().into(),
        time(ladder_step.takes_ms).into(),
        time(ladder_step.next_after_ms).into(),
        may,
        ladder_step.chosen.clone().into(),
    ];
    if wide {
        row.push(Cell::or_dash(ladder_step.why.clone()));
    }
    row
}

/// The details that do not fit into a row.
fn explain(sidecar: &Sidecar, table: &mut Table) {
    for ladder_step in &sidecar.ladder {
        if let Some(why) = &ladder_step.why {
            let text = format!("  {} {}: {why}", sidecar.container, ladder_step.step);
            table.note(Cell::new(text, Tone::Warn));
        }
    }
    if let Some(on_deletion) = &sidecar.on_deletion {
        table.note(format!(
            "  {}: when the pod is deleted and its last app has ended: {on_deletion}",
            sidecar.container
        ));
    }
    for out in &sidecar.left_out {
        let text = format!(
            "  {}: step {} with exit code {} left out: {}",
            sidecar.container,
            out.step,
            ExitCode::from(out.exit_code),
            out.why
        );
        table.note(Cell::new(text, Tone::Faint));
    }
}

fn hold(hold: &Hold, table: &mut Table) {
    table.note(acts("hold", hold.acts, &hold.mode));
    for why in &hold.because {
        table.note(format!("  {why}"));
    }
    for held_port in &hold.held_ports {
        let dns = if held_port.dns {
            ", with DNS queries"
        } else {
            ""
        };
        let text = format!(
            "  :{} is held for {}{dns} until {}",
            held_port.port, held_port.sidecar, held_port.released_when
        );
        table.note(text);
    }
    if !hold.held_ports.is_empty() {
        let again = if hold.again {
            "; held again while a sidecar restarts"
        } else {
            ""
        };
        let text = format!(
            "  for at most {}, then {}{again}",
            time(hold.deadline_ms),
            hold.on_deadline
        );
        table.note(text);
    }
    for (kind, ids) in [("UID", &hold.exempt_uids), ("GID", &hold.exempt_gids)] {
        if !ids.is_empty() {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let text = format!("  connections of {kind} {} are not held", ids.join(", "));
            table.note(text);
        }
    }
    for start in &hold.starts {
        let why = start.why.as_ref().map(|why| format!(": {why}"));
        let text = match start.limit_ms {
            Some(limit) => format!(
                "  the start of {} is held for at most {}",
                start.container,
                time(limit)
            ),
            None => format!("  the start of {} is not held", start.container),
        };
        table.note(format!("{text}{}", why.unwrap_or_default()));
    }
}

fn linger(linger: &Linger, table: &mut Table) {
    table.note(acts("linger", linger.acts, &linger.mode));
    for stop in &linger.apps {
        let container = &stop.container;
        let silence = stop.least_ms.zip(stop.silence_ms);
        table.note(match (stop.limit_ms, &stop.why) {
            (Some(limit), why) => {
                let waits = format!(
                    "  when the pod is deleted, the stop signal of app {container} waits for"
                );
                match (silence, why) {
                    (Some((least, silence)), _) => format!(
                        "{waits} {}, then until clients have sent nothing for {}, for at most {}",
                        time(least),
                        time(silence),
                        time(limit)
                    ),
                    (None, Some(why)) => format!("{waits} {}: {why}", time(limit)),
                    (None, None) => format!("{waits} {}", time(limit)),
                }
            }
            (None, why) => format!(
                "  the stop signal of app {container} does not wait: {}",
                why.as_deref().unwrap_or_default()
            ),
        });
    }
    for stop in &linger.sidecars {
        let container = &stop.container;
        let text = match (stop.limit_ms, &stop.why) {
            (Some(limit), _) => format!(
                "  when the pod is deleted, the stop signal of {container} waits until the apps have ended, for at most {}",
                time(limit)
            ),
            (None, why) => format!(
                "  the stop signal of {container} does not wait: {}",
                why.as_deref().unwrap_or_default()
            ),
        };
        table.note(text);
        if let Some(drain) = &stop.drain {
            table.note(format!(
                "    {drain} drains its inbound connections meanwhile"
            ));
        }
    }
}

fn time(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        format!("{}s", ms / 1000)
    } else {
        format!("{ms}ms")
    }
}

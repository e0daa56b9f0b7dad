//! `usher config`: the effective settings of this node, and their sources.

use usher_client::{error_chain::chain, run_dir};
use usher_core::{
    admin::{Origin, Settings},
    settings::{
        config::{Config, origin},
        mode::{NodeModes, NodeValues},
    },
};
use usher_inspect::text::{
    printable::clean,
    table::{Cell, Table, Tone},
};

use crate::{
    data_source::{
        DataSource,
        node::{LAST_GOOD, Node},
    },
    failure::Failure,
    global::{Exit, Format, Global},
    output::{Output, Report, SysdumpReport},
    stderr::print_stderr,
};

/// Show the effective settings of this node
///
/// Lists the modes and what sets them, the configuration file and its defaults, the recipes, and the flags and
/// variables of the agent. Without an agent, the command reads the file and what the last agent saved; flags are not
/// known then.
///
/// Exits with 1 if the configuration file is invalid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only settings with this text in the name
    part: Option<String>,

    /// Also show the source of each value: default, FILE:LINE, flag, variable or
    /// annotation; -o json and yaml always have it
    #[arg(long)]
    sources: bool,
}

pub(crate) async fn run(args: &Args, global: &Global) -> Result<Exit, Failure> {
    let source = DataSource::open(global).await?;
    let settings = source.answer(None, gather(&source)).await?;
    for gap in settings.error.iter().chain(&settings.gaps) {
        print_stderr(&clean(gap));
    }
    let exit = match settings.error {
        None => Exit::Success,
        Some(_) => Exit::Problem,
    };
    let mut global = global.clone();
    if args.sources && global.output == Format::Table {
        global.output = Format::Wide;
    }
    let settings = filtered(settings, args.part.as_deref());
    Output::new(&global).show(source.origin(), settings)?;
    Ok(exit)
}

pub(crate) async fn gather(source: &DataSource) -> Result<Settings, Failure> {
    if source.origin() != Origin::Agent {
        return Ok(of_node(&source.node));
    }
    source.agent()?.get("/v1/config").await
}

impl SysdumpReport for Settings {
    const KIND: &'static str = <Self as Report>::KIND;
    const NAME: &'static str = "config";
}

fn filtered(mut settings: Settings, part: Option<&str>) -> Settings {
    let is_wanted = |key: &str| part.is_none_or(|part| key.contains(part));
    settings.items.retain(|one| is_wanted(&one.key));
    settings
}

/// The settings that an agent would use if it started now, if they are known.
fn of_node(node: &Node) -> Settings {
    let file = node.args.config.display().to_string();
    let mut gaps = vec!["no agent answers; the flags of the agent are not known".to_owned()];
    let saved = run_dir::load_node_values(&node.args.run_dir).unwrap_or_else(|error| {
        gaps.push(chain(&error));
        None
    });
    let values = saved.unwrap_or_else(|| {
        gaps.push("no agent has saved the Node's annotations; the modes are not known".to_owned());
        NodeValues::default()
    });
    let mut items = Vec::new();
    let text = node.config_text().map(Option::unwrap_or_default);
    let parsed = text.and_then(|text| match Config::parse(&file, &text) {
        Ok(config) => Ok((config, text)),
        Err(bad) => Err(bad.to_string()),
    });
    let error = match parsed {
        Ok((config, text)) => {
            let modes = NodeModes::resolve(config.modes, &values);
            gaps.extend(modes.invalid.iter().map(|invalid| chain(invalid)));
            items.extend(origin::modes(&modes));
            items.extend(origin::settings(&config, &file, &text));
            None
        }
        Err(error) => {
            let (config, text) = node.last_good();
            items.extend(origin::modes(&NodeModes::resolve(config.modes, &values)));
            items.extend(origin::settings(&config, LAST_GOOD, &text));
            Some(error)
        }
    };
    Settings {
        file,
        error,
        gaps,
        items,
    }
}

impl Report for Settings {
    const KIND: &'static str = "Settings";

    fn table(&self, wide: bool) -> Table {
        let mut columns = vec!["SETTING", "VALUE"];
        columns.extend(wide.then_some("SOURCE"));
        let mut table = Table::new(columns);
        for one in &self.items {
            let value = Some(one.value.clone()).filter(|value| !value.is_empty());
            let mut row = vec![Cell::from(one.key.clone()), Cell::or_dash(value)];
            if wide {
                let is_given = !["default", "built-in"].contains(&one.source.as_str());
                let tone = if is_given { Tone::Plain } else { Tone::Faint };
                row.push(Cell::new(one.source.clone(), tone));
            }
            table.row(row);
        }
        table
    }
}

//! The source of each flag's value: the command line, an environment variable, or the default.

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, parser::ValueSource};
use usher_core::settings::config::origin::Setting;

use super::Args;

/// Parses the agent's command line. Exits where it is invalid.
pub(super) fn parse() -> Args {
    let command = Args::command();
    let matches = command.clone().get_matches();
    let mut args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    args.settings = settings(&command, &matches);
    args
}

fn settings(command: &Command, matches: &ArgMatches) -> Vec<Setting> {
    let flags = command.get_arguments().filter_map(|flag| {
        let long = flag.get_long()?;
        let id = flag.get_id().as_str();
        let values = matches.get_raw(id);
        let values: Vec<_> = values
            .into_iter()
            .flatten()
            .map(|value| value.to_string_lossy())
            .collect();
        let source = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => "flag".to_owned(),
            Some(ValueSource::EnvVariable) => {
                let name = flag.get_env().unwrap_or_default().to_string_lossy();
                format!("variable {name}")
            }
            _ => "default".to_owned(),
        };
        Some(Setting::new(format!("--{long}"), values.join(" "), source))
    });
    flags.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_has_a_source() {
        let command = Args::command();
        let line = [
            "usher-agent",
            "--node-name",
            "n",
            "--metrics-bind-address",
            "127.0.0.1:1",
        ];
        let matches = command.clone().get_matches_from(line);
        let settings = settings(&command, &matches);
        let of = |key: &str| {
            let found = settings.iter().find(|one| one.key == key);
            found.map(|one| (one.value.as_str(), one.source.as_str()))
        };
        assert_eq!(of("--metrics-bind-address"), Some(("127.0.0.1:1", "flag")));
        assert_eq!(of("--log-format"), Some(("text", "default")));
        assert_eq!(of("--kubelet-cert"), Some(("auto", "default")));
        assert_eq!(of("--cleanup"), Some(("false", "default")));
    }
}

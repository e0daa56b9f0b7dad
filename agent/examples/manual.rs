//! Writes manual pages and completions of all programs into a folder: `cargo run -p usher-agent --example manual DIR`.
//!
//! It is an example, so that the shipped programs do not contain the generators.

use std::{env, fs, io, path::PathBuf};

use clap::ValueEnum;
use clap_complete::Shell;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("the argument DIR is missing"))?;
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&man, &completions] {
        fs::create_dir_all(folder)?;
    }
    for shell in usher_cli::Shell::value_variants() {
        fs::write(completions.join(shell.file()), shell.script())?;
    }
    for command in commands() {
        let name = command.get_name().to_owned();
        // usher has completions of its own (above), and `cleanup-cluster` is a word of usher-agent.
        if name == "usher-agent" {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                clap_complete::generate_to(shell, &mut command.clone(), &name, &completions)?;
            }
        }
        clap_mangen::generate_to(command.disable_help_subcommand(true), &man)?;
    }
    Ok(())
}

/// All programs that have a command line.
fn commands() -> Vec<clap::Command> {
    let mut commands = usher_agent::commands();
    commands.splice(0..0, [usher_cli::command(), usher_cli::kubectl::command()]);
    commands
}

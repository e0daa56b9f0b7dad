//! Writes manual pages and completions of all programs into a folder: `cargo run -p usher-agent --example manual DIR`.
//!
//! An example and no program, so that what writes manuals is not in what is shipped.

use std::{env, fs, io, path::PathBuf};

use clap::ValueEnum;
use clap_complete::Shell;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("which folder?"))?;
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for folder in [&man, &completions] {
        fs::create_dir_all(folder)?;
    }
    for shell in usher_cli::Shell::value_variants() {
        fs::write(completions.join(shell.file()), shell.script())?;
    }
    for command in commands() {
        let name = command.get_name().to_owned();
        // Of usher there is more to complete than what its description says, and the other is a word that one takes.
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
    commands.insert(0, usher_cli::command());
    commands
}

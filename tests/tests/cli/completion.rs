//! `usher completion`, in real shells.
//!
//! zsh and fish are Debian's packages, installed on first use. fish completes a line by itself; the tests call the
//! functions for bash and zsh as their line editors do.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use usher_cluster::programs::ensure_package;
use usher_tests::{
    synthetic::{Behaviour, Node, PodSpec, clock::eventually, usher},
    wait::slower,
};

use crate::{answer, enforcing, run};

/// The path of a shell.
fn installed(shell: &str) -> PathBuf {
    ensure_package(shell, shell).unwrap()
}

/// The lines of a shell's standard output, in order.
fn completions(node: &Node, shell: &Path, arguments: &[&str], script: &str) -> Vec<String> {
    let usher = usher::command_on(node);
    let program = Path::new(usher.get_program());
    let folder = program.parent().unwrap();
    let mut command = Command::new(shell);
    let variables = usher.get_envs();
    let variables = variables.filter_map(|(name, value)| Some((name, value?)));
    command
        .args(arguments)
        .arg(script)
        .env_clear()
        .envs(variables)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", node.run_dir());
    let ran = command.output().unwrap();
    let stdout = String::from_utf8(ran.stdout).unwrap();
    let mut lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(!lines.is_empty() || stderr.is_empty(), "{stderr}");
    lines
}

fn script(node: &Node, shell: &str) -> String {
    let path = node.run_dir().with_file_name("completion");
    fs::write(&path, answer(node, &["completion", shell])).unwrap();
    path.display().to_string()
}

/// The completions that this shell offers for the last of these words.
fn offered(node: &Node, shell: &str, words: &[&str]) -> Vec<String> {
    let source = script(node, shell);
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let quoted = quoted.join(" ");
    match shell {
        "bash" => {
            let text = format!(
                "source {source}; compopt() {{ echo ':files'; }}; COMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
                 _usher; printf '%s\\n' \"${{COMPREPLY[@]}}\"; complete -p usher >/dev/null || echo 'not registered'"
            );
            let mut lines =
                completions(node, &PathBuf::from("/bin/bash"), &["--norc", "-c"], &text);
            lines.retain(|line| !line.is_empty());
            lines
        }
        "zsh" => {
            let zsh = installed("zsh");
            let text = format!(
                "compdef() {{ [[ $1 == _usher && $2 == usher ]] || echo 'not registered' }}; _files() {{ echo :files }}; \
                 _describe() {{ local one; for one in \"${{(@)${{(P)2}}}}\"; do echo ${{one%%:*}}; done }}; \
                 source {source}; words=({quoted}); CURRENT=${{#words}}; _usher"
            );
            completions(node, &zsh, &["-f", "-c"], &text)
        }
        _ => {
            let fish = installed("fish");
            let line = words.join(" ");
            let text = format!("source {source}; complete -C '{line}'");
            let lines = completions(node, &fish, &["--no-config", "-c"], &text);
            let value = |line: &String| line.split('\t').next().unwrap_or_default().to_owned();
            lines.iter().map(value).collect()
        }
    }
}

fn completes(shell: &str) {
    let Some(node) = enforcing() else { return };
    let _pods = ["report", "web"].map(|name| node.run(&PodSpec::job(name)));
    let of = |words: &[&str]| offered(&node, shell, words);
    // A busy machine offers no pods in time.
    let offers = |word: &str, pods: &[&str]| {
        let what = format!("{shell} to offer {pods:?}");
        eventually(&what, || of(&["usher", "sysdump", "--pod", word]) == pods);
    };
    offers("", &["default/report", "default/web"]);
    offers("default/w", &["default/web"]);
    assert_eq!(of(&["usher", "completion", "f"]), ["fish"]);
    assert_eq!(of(&["usher", "--no-headers", "sysd"]), ["sysdump"]);
    assert_eq!(of(&["usher", "pods", "--no-h"]), ["--no-headers"]);
    let forms = of(&["usher", "pods", "--output", ""]);
    assert_eq!(forms, ["json", "table", "wide", "yaml"]);
    if shell == "bash" {
        // The shell treats the sign as a word of its own.
        assert_eq!(of(&["usher", "pods", "--output", "=", "j"]), ["json"]);
        assert_eq!(of(&["usher", "pods", "--output", "="]), forms);
    } else {
        assert_eq!(of(&["usher", "pods", "--output=j"]), ["--output=json"]);
    }
    let files = of(&["usher", "--file", "/etc/hostn"]);
    let expected = if shell == "fish" {
        "/etc/hostname"
    } else {
        ":files"
    };
    assert_eq!(files, [expected]);
}

#[test]
fn bash() {
    completes("bash");
}

#[test]
fn zsh() {
    completes("zsh");
}

#[test]
fn fish() {
    completes("fish");
}

#[test]
fn completion_does_not_wait_for_a_silent_node() {
    let Some(node) = enforcing() else { return };
    let _pod = node.run(&PodSpec::job("report"));
    let pods = ["__complete", "--", "sysdump", "--pod", ""];
    eventually("the pod", || {
        answer(&node, &pods) == "default/report\trunning\n"
    });
    node.kubelet().behave(Behaviour::Silence);
    let begun = std::time::Instant::now();
    let ran = run(&node, &pods);
    assert_eq!((&ran.stdout[..], &ran.stderr[..]), ("", ""), "{ran:?}");
    let took = begun.elapsed();
    // The timeout of the kubelet's response.
    assert!(took < slower(Duration::from_secs(5)), "{took:?}");
}

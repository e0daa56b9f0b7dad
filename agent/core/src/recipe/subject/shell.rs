//! Commands below a shell: `sh -c "... /cloud_sql_proxy -instances=...=tcp:5432"`.
//!
//! A script is not interpreted: its words and its last command are enough to read flags and to recognize a program. An app
//! that starts a proxy in the background and then does its work ends with another command, and stays an app.

/// Programs whose `-c` takes a script.
const SHELLS: [&str; 5] = ["sh", "bash", "ash", "dash", "busybox"];
/// Programs and words of the shell that a command follows.
const PREFIXES: [&str; 12] = [
    "dumb-init",
    "tini",
    "catatonit",
    "kubexit",
    "timeout",
    "nohup",
    "time",
    "exec",
    "env",
    "then",
    "do",
    "else",
];
/// Words that end a compound command.
const CLOSING: [&str; 4] = ["done", "fi", "}", "esac"];

/// The words of a command; the script of a shell is replaced by its words.
pub(super) fn words(command: &[String]) -> Vec<&str> {
    match script_at(command) {
        None => command.iter().map(String::as_str).collect(),
        Some(at) => command[..at]
            .iter()
            .map(String::as_str)
            .chain(command[at].split_whitespace().map(bare))
            .chain(command[at + 1..].iter().map(String::as_str))
            .collect(),
    }
}

/// The words of the commands of a script that run a program, or of the whole command.
pub(super) fn words_of(command: &[String], is_program: impl Fn(&str) -> bool) -> Vec<&str> {
    let Some(at) = script_at(command) else {
        return words(command);
    };
    let runs = |words: &[&str]| words.iter().any(|word| is_program(base_name(word)));
    let mut all: Vec<Vec<&str>> = Vec::new();
    let mut continues = false;
    for line in command[at].lines().map(str::trim) {
        let mut parts = commands(line);
        if continues && let (Some(last), Some(part)) = (all.last_mut(), parts.next()) {
            last.extend(part.split_whitespace().map(bare));
        }
        all.extend(parts.map(|part| part.split_whitespace().map(bare).collect()));
        continues = line.ends_with('\\');
    }
    all.retain(|words| runs(words));
    all.concat()
}

/// The commands of a line. The `&` of a redirection (`2>&1`, `&>log`) ends none, but what follows `&>` is no command.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    let mut before = ' ';
    line.split(move |letter| {
        let is_end = matches!(letter, ';' | '|') || letter == '&' && !matches!(before, '<' | '>');
        before = letter;
        is_end
    })
}

/// The base name of the program that decides how long the container runs.
pub(super) fn program(command: &[String]) -> Option<&str> {
    match script_at(command) {
        None => executed(command.iter().map(String::as_str)),
        Some(at) => {
            last_command(&command[at]).and_then(|line| executed(line.split_whitespace().map(bare)))
        }
    }
}

/// The last command of a script. A backslash at the end of a line continues the command.
fn last_command(script: &str) -> Option<&str> {
    let mut last = None;
    let mut continues = false;
    for line in script.lines().map(str::trim) {
        let found = commands(line)
            .skip(usize::from(continues))
            .map(str::trim)
            .filter(|command| !command.is_empty() && !command.starts_with('>'))
            .filter(|command| !CLOSING.contains(command));
        last = found.last().filter(|_| !line.starts_with('#')).or(last);
        continues = line.ends_with('\\');
    }
    last
}

/// The program of one command, behind assignments and wrappers with their options and times.
fn executed<'word>(words: impl Iterator<Item = &'word str>) -> Option<&'word str> {
    words
        .filter(|word| !word.starts_with(|first: char| first == '-' || first.is_ascii_digit()))
        .filter(|word| !is_assignment(word))
        .map(base_name)
        .find(|name| !PREFIXES.contains(name))
}

/// The position of a shell's script in its command.
pub(super) fn script_at(command: &[String]) -> Option<usize> {
    let shell = command
        .iter()
        .position(|word| SHELLS.contains(&base_name(word)))?;
    let is_script_flag = |word: &String| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        letters.ends_with('c') && letters.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let flag = command[shell..].iter().position(is_script_flag)?;
    let at = shell + flag + 1;
    (at < command.len()).then_some(at)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _value)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

pub(super) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// A word without the quotes and separators around it.
fn bare(word: &str) -> &str {
    word.trim_matches(['"', '\'', ';', '(', ')'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn programs() {
        let v1 = "I=$(cat /opt/data/vars.env)\necho $I\n/cloud_sql_proxy -instances=$I=tcp:5432\n";
        for (words, expected) in [
            (
                &["/cloud_sql_proxy", "-instances=a=tcp:5432"][..],
                Some("cloud_sql_proxy"),
            ),
            (
                &["dumb-init", "--", "/usr/bin/pilot-agent", "proxy"],
                Some("pilot-agent"),
            ),
            (&["/bin/sh", "-c", v1], Some("cloud_sql_proxy")),
            (&["sh", "-ec", "exec bao agent"], Some("bao")),
            (
                &[
                    "sh",
                    "-c",
                    "A=1 ./cloud-sql-proxy \\\n  --port 1 \\\n  p:r:i",
                ],
                Some("cloud-sql-proxy"),
            ),
            // The work of an app that brings its own proxy.
            (
                &[
                    "sh",
                    "-c",
                    "/cloud_sql_proxy -instances=a=tcp:1 & ./migrate",
                ],
                Some("migrate"),
            ),
            (
                &["sh", "-c", "if x; then ./cloud_sql_proxy; fi"],
                Some("cloud_sql_proxy"),
            ),
            (
                &["/kubexit/kubexit", "/cloud-sql-proxy", "p:r:i"],
                Some("cloud-sql-proxy"),
            ),
            (
                &["timeout", "--signal=INT", "10m", "/cloud-sql-proxy"],
                Some("cloud-sql-proxy"),
            ),
            (
                &["sh", "-c", "exec /cloud-sql-proxy p:r:i > /log 2>&1"],
                Some("cloud-sql-proxy"),
            ),
            (
                &["sh", "-c", "/cloud-sql-proxy p:r:i &>/log"],
                Some("cloud-sql-proxy"),
            ),
            (&["-instances=a=tcp:5432"], None),
            (&["sh", "-c"], Some("sh")),
            (&[], None),
        ] {
            assert_eq!(program(&command(words)), expected, "{words:?}");
        }
    }

    #[test]
    fn words_of_the_commands_that_run_a_program() {
        let script = "I=$(cat /i)\n./proxy --a \\\n  \"$I\" & PID=$!\nwait $PID; ./proxy b\n";
        for (words, expected) in [
            (
                &["sh", "-c", script][..],
                &["./proxy", "--a", "\\", "$I", "./proxy", "b"][..],
            ),
            (&["sh", "-c", "./other $I"], &[]),
            (&["./proxy", "--a"], &["./proxy", "--a"]),
            (&["--a"], &["--a"]),
        ] {
            let command = command(words);
            let found = words_of(&command, |name| name == "proxy");
            assert_eq!(found, expected, "{words:?}");
        }
    }

    #[test]
    fn words_of_a_script() {
        let command = command(&["tini", "sh", "-xec", "a 'b' \"-c=1\"; d", "e"]);
        assert_eq!(
            words(&command),
            ["tini", "sh", "-xec", "a", "b", "-c=1", "d", "e"]
        );
    }
}

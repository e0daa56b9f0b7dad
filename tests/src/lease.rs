//! A lease on a file, held by another process.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Takes a write lease on a file (`F_SETLEASE`, for which Perl has no name), and keeps it until its input ends.
const LEASE: &str = r#"
    use Fcntl;
    $SIG{IO} = "IGNORE";
    open(my $file, "<", $ARGV[0]) or die $!;
    fcntl($file, 1024, F_WRLCK) or die $!;
    $| = 1;
    print "leased\n";
    <STDIN>;
"#;

/// Returns when the process has the lease.
///
/// # Panics
///
/// Without Perl, or if the file is open for writing.
pub fn lease(file: &Path) -> Child {
    let mut perl = Command::new("perl");
    let perl = perl.args(["-e", LEASE]).arg(file);
    let perl = perl.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut perl = perl.spawn().expect("Perl is installed");
    let mut line = String::new();
    let mut output = BufReader::new(perl.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("the process writes");
    assert_eq!(line, "leased\n");
    perl
}

//! The programs, how they are started, and the steps that terminate them.

use std::fmt;

const VAULT: &str = r#"
vault { address = "http://127.0.0.1:1" }
cache {}
api_proxy {}
listener "tcp" {
  address = "127.0.0.1:8200"
  tls_disable = true
  agent_api { enable_quit = true }
}
"#;

const OTELCOL: &str = r#"
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:4318"}}}}
processors: {batch: {}}
exporters: {otlphttp: {endpoint: "http://127.0.0.1:1"}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], processors: [batch], exporters: [otlphttp]}}
"#;

const ENVOY: &str = "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}";

const PGBOUNCER: &str = "
[databases]
app = host=127.0.0.1 port=1
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = 6432
unix_socket_dir =
auth_type = any
";

/// The port of a program without a listener.
pub(super) const NO_PORT: u16 = 1;

pub(super) struct Program {
    pub(super) name: &'static str,
    /// Its file in the folder.
    pub(super) file: &'static str,
    pub(super) version: &'static str,
    pub(super) words: &'static [&'static str],
    /// Files of its working directory.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Where its clients connect, or [`NO_PORT`].
    pub(super) port: u16,
    pub(super) steps: Vec<Step>,
}

pub(super) struct Step {
    pub(super) act: Act,
    /// Arguments that the step needs.
    pub(super) words: &'static [&'static str],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Signal(&'static str),
    Post { port: u16, path: &'static str },
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.act {
            Act::Signal(signal) => write!(out, "`SIG{signal}`")?,
            Act::Post { port, path } => write!(out, "`POST :{port}{path}`")?,
        }
        match self.words {
            [] => Ok(()),
            words => write!(out, " with `{}`", words.join(" ")),
        }
    }
}

const fn term(words: &'static [&'static str]) -> Step {
    Step {
        act: Act::Signal("TERM"),
        words,
    }
}

const fn post(port: u16, path: &'static str, words: &'static [&'static str]) -> Step {
    Step {
        act: Act::Post { port, path },
        words,
    }
}

pub(super) fn programs() -> Vec<Program> {
    let none = &[];
    vec![
        Program {
            name: "cloud-sql-proxy",
            file: "cloud-sql-proxy",
            version: "2.27.0",
            words: &["--token=x", "--port=5432", "p:r:i"],
            files: none,
            port: 5432,
            steps: vec![
                post(9091, "/quitquitquit", &["--quitquitquit"]),
                term(&["--exit-zero-on-sigterm"]),
                term(&[]),
            ],
        },
        Program {
            name: "cloud-sql-proxy-v1",
            file: "cloud_sql_proxy",
            version: "1.38.4",
            words: &["-token=x", "-instances=p:r:i=tcp:5432"],
            files: none,
            port: 5432,
            steps: vec![term(&[])],
        },
        Program {
            name: "alloydb-auth-proxy",
            file: "alloydb-auth-proxy",
            version: "1.17.2",
            words: &[
                "--token=x",
                "--port=5432",
                "projects/p/locations/l/clusters/c/instances/i",
            ],
            files: none,
            port: 5432,
            steps: vec![
                post(9091, "/quitquitquit", &["--quitquitquit"]),
                term(&["--exit-zero-sigterm"]),
                term(&[]),
            ],
        },
        Program {
            name: "vault-agent",
            file: "vault",
            version: "1.21.4",
            words: &["agent", "-config=agent.hcl"],
            files: &[("agent.hcl", VAULT)],
            port: 8200,
            steps: vec![post(8200, "/agent/v1/quit", &[]), term(&[])],
        },
        Program {
            name: "consul-template",
            file: "consul-template",
            version: "0.41.1",
            words: &["-consul-addr=127.0.0.1:1", "-template=in.tpl:out"],
            files: &[("in.tpl", "{{ key \"a\" }}")],
            port: NO_PORT,
            steps: vec![
                term(&[]),
                Step {
                    act: Act::Signal("INT"),
                    words: &[],
                },
            ],
        },
        Program {
            name: "otel-collector",
            file: "otelcol",
            version: "0.165.0",
            words: &["--config=otelcol.yaml"],
            files: &[("otelcol.yaml", OTELCOL)],
            port: 4318,
            steps: vec![term(&[])],
        },
        Program {
            name: "opa-istio",
            file: "opa",
            version: "1.22.3",
            words: &["run", "--server", "--addr=127.0.0.1:8181"],
            files: none,
            port: 8181,
            steps: vec![term(&[])],
        },
        Program {
            name: "dapr",
            file: "daprd",
            version: "1.14.0",
            words: &["--app-id=a", "--mode=standalone", "--resources-path=."],
            files: none,
            port: 3500,
            steps: vec![post(3500, "/v1.0/shutdown", &[]), term(&[])],
        },
        Program {
            name: "envoy",
            file: "envoy",
            version: "1.40.0",
            words: &["-c", "envoy.yaml", "--base-id", "77"],
            files: &[("envoy.yaml", ENVOY)],
            port: 9901,
            steps: vec![post(9901, "/quitquitquit", &[]), term(&[])],
        },
        Program {
            name: "node-exporter",
            file: "node_exporter",
            version: "1.12.1",
            words: &["--web.listen-address=127.0.0.1:9100"],
            files: none,
            port: 9100,
            steps: vec![term(&[])],
        },
        Program {
            name: "linkerd-debug",
            file: "tshark",
            version: "4.0.17",
            words: &["-i", "any", "-w", "/dev/null"],
            files: none,
            port: NO_PORT,
            steps: vec![term(&[])],
        },
        // Before 1.23 SIGTERM ends pgbouncer with 1.
        Program {
            name: "pgbouncer",
            file: "pgbouncer",
            version: "1.18.0",
            words: &["--user=daemon", "pgbouncer.ini"],
            files: &[("pgbouncer.ini", PGBOUNCER)],
            port: 6432,
            steps: vec![
                Step {
                    act: Act::Signal("INT"),
                    words: &[],
                },
                term(&[]),
            ],
        },
        Program {
            name: "statsd-exporter",
            file: "statsd_exporter",
            version: "0.31.0",
            words: &["--web.listen-address=127.0.0.1:9102"],
            files: none,
            port: 9102,
            steps: vec![term(&[])],
        },
        Program {
            name: "jaeger-agent",
            file: "jaeger-agent",
            version: "1.62.0",
            words: &["--reporter.grpc.host-port=127.0.0.1:1"],
            files: none,
            port: 5778,
            steps: vec![term(&[])],
        },
        Program {
            name: "oauth2-proxy",
            file: "oauth2-proxy",
            version: "7.15.6",
            words: &[
                "--provider=github",
                "--client-id=a",
                "--client-secret=b",
                "--cookie-secret=0123456789abcdef",
                "--email-domain=*",
                "--upstream=http://127.0.0.1:1",
                "--http-address=127.0.0.1:4180",
            ],
            files: none,
            port: 4180,
            steps: vec![term(&[])],
        },
    ]
}

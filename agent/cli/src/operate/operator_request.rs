//! Sends operator requests to the agent, which decides about them.

use hyper::Method;
use usher_core::{
    admin::{OperatorReply, Origin, Pod, RequestOptions},
    recipe::ExitCode,
};
use usher_inspect::{
    pod_selector::Names,
    text::table::{Cell, Table, Tone},
};

use crate::{
    data_source::{Client, DataSource},
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report},
    pod::pod_arg::resolve_pod,
};

// No doc comment here: clap would use it as the help of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Pod: namespace/name, UID, container ID, PID or IP address
    pub(crate) pod: String,

    /// Report what the agent would do, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Sends requests about one pod to the agent.
#[derive(Debug)]
pub(crate) struct OperatorClient {
    pub(crate) agent: Client,
    pub(crate) pod: Pod,
}

impl OperatorClient {
    /// Connects to the agent and resolves the pod, by its whole name.
    pub(crate) async fn open(global: &Global, pod: &str) -> Result<Self, Failure> {
        let source = DataSource::open_quietly(global).await?;
        let agent = source.agent()?.clone();
        let pod = resolve_pod(&source, pod, Names::Whole).await?;
        Ok(Self { agent, pod })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the agent cannot parse it. A refusal is not an error but a reply.
    pub(crate) async fn send(
        &self,
        verb: &str,
        options: RequestOptions,
    ) -> Result<OperatorReply, Failure> {
        let path = format!("/v1/pods/{}/{verb}", self.pod.uid);
        self.agent.send(Method::POST, &path, &options).await
    }
}

pub(crate) async fn run(global: &Global, verb: &str, args: &RequestArgs) -> Result<Exit, Failure> {
    let options = RequestOptions {
        force: false,
        dry_run: args.dry_run,
    };
    let client = OperatorClient::open(global, &args.pod).await?;
    show(global, client.send(verb, options).await?)?;
    Ok(Exit::Success)
}

/// Prints the reply. A refusal is an error, and people read only the error.
pub(crate) fn show(global: &Global, answer: OperatorReply) -> Result<(), Failure> {
    let exit = exit(&answer);
    let refused = (exit != Exit::Success).then(|| refusal(&answer, exit));
    if refused.is_none() || !global.output.is_for_people() {
        Output::new(global).show(Origin::Agent, answer)?;
    }
    refused.map_or(Ok(()), Err)
}

fn exit(answer: &OperatorReply) -> Exit {
    match (answer.answer.as_str(), answer.refusal.as_deref()) {
        (OperatorReply::TAKEN | OperatorReply::NOTHING, _) => Exit::Success,
        (_, Some("no-pod")) => Exit::PodSelection,
        _ => Exit::Refused,
    }
}

fn refusal(answer: &OperatorReply, exit: Exit) -> Failure {
    let force = if answer.yields_to_force {
        "; --force overrides this"
    } else {
        ""
    };
    let OperatorReply {
        pod,
        request,
        message,
        ..
    } = answer;
    Failure::new(exit, format!("{pod}: {request} refused: {message}{force}"))
}

impl Report for OperatorReply {
    const KIND: &'static str = "OperatorReply";

    fn table(&self, _wide: bool) -> Table {
        let mut table = Table::new(["CONTAINER", "FIRST", "EXIT", "NOTE"]);
        let would = if self.dry_run { " (dry run)" } else { "" };
        let tone = match self.answer.as_str() {
            Self::TAKEN => Tone::Good,
            Self::NOTHING => Tone::Plain,
            _ => Tone::Bad,
        };
        let message = format!("{}: {}{would}: {}", self.pod, self.request, self.message);
        table.lead(Cell::new(message, tone));
        for step in &self.steps {
            table.row([
                step.container.clone().into(),
                step.step.clone().into(),
                ExitCode::from(step.exit_code).to_string().into(),
                Cell::or_dash(step.note.clone()),
            ]);
        }
        for despite in &self.despite {
            table.note(Cell::new(format!("although {despite}"), Tone::Warn));
        }
        table
    }
}

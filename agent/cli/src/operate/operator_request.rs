//! What the orders have in common: they go to the agent, which decides.

use hyper::Method;
use usher_core::admin::{Document, Ordered, Origin, Pod, RequestOptions};
use usher_inspect::text::table::{Cell, Table, Tone};

use crate::pod::pod_arg::{reject_file, resolve_pod};
use crate::{
    data_source::{Client, DataSource},
    failure::Failure,
    global::{Exit, Global},
    output::{Output, Report},
};

// No comment that clap would take for the command's own.
#[derive(Debug, clap::Args)]
pub(crate) struct Given {
    /// The pod: namespace/name, UID, container id, pid, IP or a unique part of
    /// its name
    pub(crate) pod: String,

    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// An order that can be given: an agent, and the pod that is meant.
#[derive(Debug)]
pub(crate) struct OperatorClient {
    pub(crate) agent: Client,
    pub(crate) pod: Pod,
}

impl OperatorClient {
    /// Finds whom to ask, and about which pod.
    ///
    /// # Errors
    /// Without an agent: nobody else can do it.
    pub(crate) async fn open(global: &Global, given: &str) -> Result<Self, Failure> {
        reject_file(global, "an order")?;
        let source = DataSource::open_quietly(global).await?;
        let agent = source.agent()?.clone();
        let pod = resolve_pod(&source, given).await?;
        Ok(Self { agent, pod })
    }

    /// Gives an order.
    ///
    /// # Errors
    /// When the agent does not take it for one. That it refuses is an answer.
    pub(crate) async fn give(
        &self,
        order: &str,
        manner: RequestOptions,
    ) -> Result<Ordered, Failure> {
        let path = format!("/v1/pods/{}/{order}", self.pod.uid);
        let answer: Document<Ordered> = self.agent.send(Method::POST, &path, &manner).await?;
        Ok(answer.data)
    }
}

/// Gives an order and shows the answer.
pub(crate) async fn run(global: &Global, order: &str, given: &Given) -> Exit {
    let manner = RequestOptions {
        force: false,
        dry_run: given.dry_run,
    };
    let answer = match OperatorClient::open(global, &given.pod).await {
        Ok(desk) => desk.give(order, manner).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) => show(global, answer),
        Err(error) => error.report(),
    }
}

/// Shows what was said to an order, and how the program ends for it.
pub(crate) fn show(global: &Global, answer: Ordered) -> Exit {
    let exit = exit(&answer);
    let refused = (exit != Exit::Success).then(|| refusal(&answer, exit));
    if let (Some(refused), true) = (&refused, global.output.is_for_people()) {
        return refused.report();
    }
    match Output::new(global).show(Origin::Agent, answer) {
        Exit::Success => refused.map_or(Exit::Success, |refused| refused.report()),
        other => other,
    }
}

fn exit(answer: &Ordered) -> Exit {
    match (answer.answer.as_str(), answer.refusal.as_deref()) {
        (Ordered::TAKEN | Ordered::NOTHING, _) => Exit::Success,
        (_, Some("no-pod")) => Exit::PodSelection,
        _ => Exit::Refused,
    }
}

fn refusal(answer: &Ordered, exit: Exit) -> Failure {
    let force = if answer.yields_to_force {
        "; --force does it all the same"
    } else {
        ""
    };
    let Ordered {
        pod, order, says, ..
    } = answer;
    Failure::new(exit, format!("{pod}: {order} refused: {says}{force}"))
}

impl Report for Ordered {
    const KIND: &'static str = "Order";

    fn table(&self, _wide: bool) -> Table {
        let mut table = Table::new(["CONTAINER", "FIRST", "EXIT", "NOTE"]);
        let would = if self.dry_run { " (dry run)" } else { "" };
        let tone = match self.answer.as_str() {
            Self::TAKEN => Tone::Good,
            Self::NOTHING => Tone::Plain,
            _ => Tone::Bad,
        };
        let says = format!("{}: {}{would}: {}", self.pod, self.order, self.says);
        table.lead(Cell::new(says, tone));
        for step in &self.steps {
            table.row([
                step.container.clone().into(),
                step.step.clone().into(),
                step.exit_code.to_string().into(),
                Cell::or_dash(step.note.clone()),
            ]);
        }
        for despite in &self.despite {
            table.note(Cell::new(format!("although {despite}"), Tone::Warn));
        }
        table
    }
}

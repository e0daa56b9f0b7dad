//! The worker process: everything that happens inside the network namespaces of pods.
//!
//! A pod with `NET_ADMIN` can make one system call in its namespace last for minutes, and nothing interrupts that
//! call. So the event loop makes no such calls: it sends jobs to the worker and receives replies. A system call that
//! does not return blocks one thread of the worker, and not other pods, the event loop, or a SIGKILL to the agent.
//!
//! In the agent: `client` sends jobs, fails those that do not return (`pending`), and keeps the quarantine.
//!
//! In the worker: `serve` receives jobs. `lanes` limits them by namespace and node, and detects stuck ones. `rules`
//! checks the cost of a packet in a namespace. `sandbox` runs the holds (`hold_table`, `probe`). `request` sends requests
//! (`loopback`, `http`) and signals. `traffic` samples what clients send to apps with a held stop signal.

mod client;
mod hold_table;
mod http;
mod lanes;
mod loopback;
mod pending;
mod probe;
mod replies;
mod request;
mod rules;
mod sandbox;
mod serve;
mod traffic;

pub(crate) use self::{
    client::{Descriptor, News, Worker},
    loopback::PREPARED,
    pending::Purpose,
    serve::run,
};

//! The worker process: everything that happens inside the network namespaces of pods.
//!
//! A pod with `NET_ADMIN` can make one system call in its namespace last for minutes, and nothing interrupts that call.
//! So the event loop never makes one. It sends jobs to the worker and receives replies. A system call that does not
//! return keeps one thread of the worker; other pods, the event loop, and a SIGKILL to the agent do not wait for it.
//!
//! The agent: `client` sends jobs, fails those that do not return (`pending`), and keeps the quarantine.
//!
//! The worker: `serve` receives jobs, `lanes` limits them by namespace and node and finds those that are stuck, `rules`
//! checks how much a packet costs in a namespace, `sandbox` runs the holds (`gate`, `probe`), and `request` sends
//! requests (`loopback`, `http`) and signals. `traffic` samples what clients send to apps whose stop signals wait.

mod client;
mod gate;
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

//! Everything that a person reads, as pure functions: reports and tables of the command-line tool, without IO.
//!
//! | folder | what |
//! | --- | --- |
//! | `explain` | the diagnosis of one pod |
//! | `check` | the health of the node and of usher on it |
//! | `conns` | sockets of a pod, with their containers and their way through the mesh |
//! | `capture` | packet filters, pcapng, one line per packet |
//! | `http` | a request and its response |
//! | `sysdump` | a dump of the node, and redaction of secrets |
//! | `text` | tables, and characters that are safe to print |

pub mod capture;
pub mod check;
pub mod conns;
pub mod explain;
pub mod http;
pub mod pod_selector;
pub mod sysdump;
pub mod text;

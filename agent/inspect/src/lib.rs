//! Reports and tables of the command-line tool, as pure functions without IO.
//!
//! | folder | what |
//! | --- | --- |
//! | `explain` | the diagnosis of one pod |
//! | `check` | the health of the node and of usher on it |
//! | `conns` | sockets of a pod, with their containers and their path through the mesh |
//! | `connect` | a TCP connection from a pod |
//! | `dns` | name resolution of a pod |
//! | `capture` | packet filters, pcapng, one line per packet |
//! | `http` | request and response of HTTP/1.1 |
//! | `sysdump` | layout of a sysdump, and redaction of secrets |
//! | `pod_selector` | selection of a pod by name, UID, container ID, PID or IP address |
//! | `text` | tables, and characters that are safe to print |

pub mod capture;
pub mod check;
pub mod connect;
pub mod conns;
pub mod dns;
pub mod explain;
pub mod http;
pub mod pod_selector;
pub mod sysdump;
pub mod text;

//! A TCP connection from a pod's network namespace: its destination, and the report of `usher connect`.

mod destination;
mod report;

pub use self::{
    destination::{Destination, Host, InvalidDestination},
    report::{Attempt, Connection, Outcome, Reaction},
};

//! Name resolution as the C library of a pod does it: its `resolv.conf` and `hosts`, queries, and the report.
//!
//! [`simple_dns`] parses messages. hickory-proto is not used: it brings some 60 packages, among them the Unicode tables of
//! IDNA, for names that the C library sends as they are.

mod hosts;
mod message;
mod name;
mod report;
mod resolv_conf;

pub use self::{
    hosts::addresses_of,
    message::{Answer, Malformed, Query},
    name::{InvalidName, Name},
    report::{Exchange, Outcome, RecordType, Resolution, Resolver, Source, Transport, time_text},
    resolv_conf::ResolvConf,
};

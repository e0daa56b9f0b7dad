//! The fuzz targets, each with the name of its folder in `corpus`. The fuzzer and an ordinary test call the same
//! functions, which panic if a decoder violates an assertion.

#[path = "decoders/answer.rs"]
mod answer;
#[path = "decoders/api.rs"]
mod api;
#[path = "decoders/capture.rs"]
mod capture;
#[path = "decoders/document.rs"]
mod document;
#[path = "decoders/file.rs"]
mod file;
#[path = "decoders/holder.rs"]
mod holder;
#[path = "decoders/kernel.rs"]
mod kernel;
#[path = "decoders/node.rs"]
mod node;
#[path = "decoders/word.rs"]
mod word;

/// A name, and the function that takes the bytes: whether its decoder accepts them.
pub(crate) type Target = (&'static str, fn(&[u8]) -> bool);

/// Every target.
pub(crate) const TARGETS: [Target; 33] = [
    ("admin", document::admin),
    ("annotations", api::annotations),
    ("bundle", node::bundle),
    ("capture_filter", capture::filter),
    ("cgroup", node::cgroup),
    ("cni_conf", node::cni_conf),
    ("cni_message", node::cni_message),
    ("config", file::config),
    ("conflist", file::conflist),
    ("directive", word::directive),
    ("facts", api::facts),
    ("holder", holder::execs_and_orders),
    ("http_answer", answer::http),
    ("http_request", word::http_request),
    ("manifest", document::manifest),
    ("mountinfo", node::mountinfo),
    ("nflog", kernel::nflog),
    ("nft", kernel::nft),
    ("packet", capture::packet),
    ("packet_ring", capture::ring),
    ("podlist", api::podlist),
    ("printable", document::printable),
    ("proc_status", node::proc_status),
    ("redaction", document::redaction),
    ("samples", answer::samples),
    ("select", word::select),
    ("sockdiag", kernel::sockdiag),
    ("start_message", node::start_message),
    ("syn", kernel::syn),
    ("taint", api::taint),
    ("timeline", file::timeline),
    ("verdict", kernel::verdict),
    ("word", word::words),
];

/// Passes bytes to the decoder of this name. Whether it accepts them.
///
/// # Panics
/// If there is none, and if it violates an assertion.
pub(crate) fn decode(name: &str, bytes: &[u8]) -> bool {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let Some((_, decoder)) = target else {
        panic!("no decoder is called {name}");
    };
    decoder(bytes)
}

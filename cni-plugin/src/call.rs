//! The runtime's input: variables of the environment, and stdin.

use std::{
    env,
    ffi::OsString,
    io::{self, Read},
    path::PathBuf,
};

use usher_core::cni::protocol::{Code, Failure};

/// Limit of the input.
const LONGEST: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) verb: Option<String>,
    pub(crate) container: String,
    pub(crate) netns: Option<PathBuf>,
    pub(crate) interface: String,
    pub(crate) arguments: String,
    stdin: Result<String, Failure>,
}

impl Call {
    /// The input of this process. A variable that is not UTF-8 counts as unset.
    pub(crate) fn of_process() -> Self {
        let variable = |name: &str| {
            let text = env::var_os(name).map(OsString::into_string);
            text.and_then(Result::ok).filter(|text| !text.is_empty())
        };
        Self {
            verb: variable("CNI_COMMAND"),
            container: variable("CNI_CONTAINERID").unwrap_or_default(),
            netns: env::var_os("CNI_NETNS")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            interface: variable("CNI_IFNAME").unwrap_or_default(),
            arguments: variable("CNI_ARGS").unwrap_or_default(),
            stdin: read(io::stdin().lock()),
        }
    }

    /// The network configuration.
    pub(crate) fn stdin(&self) -> Result<&str, Failure> {
        self.stdin.as_deref().map_err(Clone::clone)
    }
}

fn read(input: impl Read) -> Result<String, Failure> {
    let rejected = |code: Code, details: String| Failure {
        code,
        message: "network configuration cannot be read".to_owned(),
        details,
    };
    let mut bytes = Vec::new();
    if let Err(error) = input.take(LONGEST + 1).read_to_end(&mut bytes) {
        return Err(rejected(Code::Io, error.to_string()));
    }
    if bytes.len() as u64 > LONGEST {
        return Err(rejected(Code::Io, format!("longer than {LONGEST} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| rejected(Code::Decode, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_bounded_and_text() {
        assert_eq!(read(&b"{}"[..]).unwrap(), "{}");
        assert_eq!(read(&b"\xff"[..]).unwrap_err().code, Code::Decode);
        assert_eq!(read(io::repeat(b' ')).unwrap_err().code, Code::Io);
    }
}

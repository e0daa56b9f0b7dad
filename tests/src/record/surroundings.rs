//! The machine of a benchmark: `/proc/cpuinfo`, `/proc/meminfo`, `/proc/loadavg`
//! ([proc(5)](https://man7.org/linux/man-pages/man5/proc.5.html)).

use super::document::About;

pub(super) fn about() -> About {
    let (cpuinfo, meminfo) = (read("cpuinfo"), read("meminfo"));
    let cores = std::thread::available_parallelism();
    let kib = field(&meminfo, "MemTotal").and_then(|kib| kib.split(' ').next()?.parse().ok());
    let load = load();
    About {
        // Not every architecture names it there.
        cpu: field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: cores.map_or(1, usize::from),
        memory_mib: kib.unwrap_or(0_u64) / 1024,
        kernel: read("sys/kernel/osrelease").trim().to_owned(),
        load_before: load,
        load_most: load,
    }
}

/// The average number of runnable processes over the last minute.
pub(super) fn load() -> f64 {
    let text = read("loadavg");
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or_default()
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{file}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_a_processor_memory_and_a_kernel() {
        let about = about();
        assert!(!about.cpu.is_empty() && !about.kernel.is_empty());
        assert!(about.memory_mib > 0, "{about:?}");
    }
}

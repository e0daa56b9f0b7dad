//! `/etc/resolv.conf` ([resolv.conf(5)](https://man7.org/linux/man-pages/man5/resolv.conf.5.html)), with the limits of glibc.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use super::Name;

const MAX_SERVERS: usize = 3;
const MAX_NDOTS: usize = 15;
const MAX_TIMEOUT: u64 = 30;
const MAX_ATTEMPTS: usize = 5;
/// Kubernetes' limit of a pod's search domains.
const MAX_SEARCH: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvConf {
    pub servers: Vec<IpAddr>,
    pub search: Vec<String>,
    /// A name with fewer dots is tried with the search domains first.
    pub ndots: usize,
    /// Time for the reply of one server.
    pub timeout: Duration,
    /// How often each server is queried.
    pub attempts: usize,
}

impl Default for ResolvConf {
    /// The settings without a file.
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        }
    }
}

impl ResolvConf {
    /// Like the C library, skips unknown lines, and queries loopback if no server is given.
    pub fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => conf
                    .servers
                    .extend(words.next().and_then(|word| word.parse::<IpAddr>().ok())),
                Some("search") => {
                    let is_usable = |domain: &str| domain.parse::<Name>().is_ok();
                    conf.search = words
                        .filter(|domain| is_usable(domain))
                        .map(|domain| domain.trim_end_matches('.').to_owned())
                        .take(MAX_SEARCH)
                        .collect();
                }
                Some("options") => words.for_each(|option| conf.set(option)),
                _ => {}
            }
        }
        conf.servers.truncate(MAX_SERVERS);
        if conf.servers.is_empty() {
            conf.servers.push(Ipv4Addr::LOCALHOST.into());
        }
        conf
    }

    fn set(&mut self, option: &str) {
        let Some((name, value)) = option.split_once(':') else {
            return;
        };
        let Ok(value) = value.parse::<u64>() else {
            return;
        };
        let count = usize::try_from(value).unwrap_or(usize::MAX);
        match name {
            "ndots" => self.ndots = count.min(MAX_NDOTS),
            "timeout" => self.timeout = Duration::from_secs(value.clamp(1, MAX_TIMEOUT)),
            "attempts" => self.attempts = count.clamp(1, MAX_ATTEMPTS),
            _ => {}
        }
    }

    /// The names to query, in order.
    pub fn candidates(&self, name: &Name) -> Vec<Name> {
        if name.as_str().ends_with('.') {
            return vec![name.clone()];
        }
        let searched = self
            .search
            .iter()
            .filter_map(|domain| format!("{name}.{domain}").parse().ok());
        let mut names: Vec<Name> = searched.collect();
        let dots = name.as_str().matches('.').count();
        let place = if dots >= self.ndots { 0 } else { names.len() };
        names.insert(place, name.clone());
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";

    fn candidates(conf: &ResolvConf, name: &str) -> Vec<String> {
        let names = conf.candidates(&name.parse().unwrap()).into_iter();
        names.map(|name| name.to_string()).collect()
    }

    #[test]
    fn file_of_a_pod() {
        let conf = ResolvConf::parse(POD);
        assert_eq!(conf.servers, ["10.96.0.10".parse::<IpAddr>().unwrap()]);
        assert_eq!(conf.ndots, 5);
        assert_eq!(
            candidates(&conf, "db"),
            [
                "db.shop.svc.cluster.local",
                "db.svc.cluster.local",
                "db.cluster.local",
                "db"
            ]
        );
        assert_eq!(candidates(&conf, "example.com."), ["example.com."]);
        assert_eq!(candidates(&conf, "a.b.c.d.e.f")[0], "a.b.c.d.e.f");
        assert_eq!(candidates(&conf, "example.com")[3], "example.com");
    }

    #[test]
    fn limits_are_those_of_glibc() {
        let text = "nameserver 1.1.1.1\nnameserver x\nnameserver ::1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\n\
                    search old\nsearch a. b/c\noptions ndots:99 timeout:0 attempts:77 rotate timeout:x\n; comment\n";
        let conf = ResolvConf::parse(text);
        assert_eq!(conf.servers.len(), MAX_SERVERS);
        assert_eq!(conf.search, ["a"]);
        assert_eq!(conf.ndots, MAX_NDOTS);
        assert_eq!(conf.timeout, Duration::from_secs(1));
        assert_eq!(conf.attempts, MAX_ATTEMPTS);
    }

    #[test]
    fn file_without_a_server_means_the_pod_itself() {
        assert_eq!(
            ResolvConf::parse("").servers,
            [IpAddr::from([127, 0, 0, 1])]
        );
    }

    #[test]
    fn search_domain_that_makes_the_name_too_long_is_skipped() {
        let long = vec!["a".repeat(60); 4].join(".");
        let conf = ResolvConf::parse(&format!("search {long} b\n"));
        assert_eq!(
            candidates(&conf, "x.y.z.1234567890"),
            ["x.y.z.1234567890", "x.y.z.1234567890.b"]
        );
    }
}

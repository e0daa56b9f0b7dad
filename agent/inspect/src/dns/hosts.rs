//! `/etc/hosts` ([hosts(5)](https://man7.org/linux/man-pages/man5/hosts.5.html)).

use std::net::IpAddr;

pub fn addresses_of(name: &str, hosts: &str) -> Vec<IpAddr> {
    let lines = hosts.lines().filter_map(|line| {
        let line = line.split('#').next()?;
        let mut words = line.split_ascii_whitespace();
        let address = words.next()?.parse::<IpAddr>().ok()?;
        words
            .any(|word| word.eq_ignore_ascii_case(name))
            .then_some(address)
    });
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in lines {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_name_counts() {
        let text = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n\
                    10.1.2.3\tdb DB.shop # db2\nbroken db\n10.1.2.4 db\n10.1.2.3 db\n";
        let of = |name| addresses_of(name, text);
        let addresses = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(of("localhost"), addresses(&["127.0.0.1", "::1"]));
        assert_eq!(of("db"), addresses(&["10.1.2.3", "10.1.2.4"]));
        assert_eq!(of("db.SHOP"), addresses(&["10.1.2.3"]));
        assert_eq!(of("db2"), addresses(&[]));
    }
}

//! The packet filter of a network namespace, and its work for one packet.
//!
//! The kernel evaluates the rules within the system call that sends the packet. It limits how deep chains nest, but
//! not how often they are evaluated: with fourteen chains that each jump to the next one four times, a single
//! `connect(2)` takes nine seconds. So usher limits the work before it sends anything.

use std::cmp::max;

/// A chain or a verdict map, by its index.
pub type Index = usize;

/// All chains and verdict maps of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketFilter {
    pub chains: Vec<Chain>,
    pub maps: Vec<VerdictMap>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// None for a chain that is only jumped to.
    pub hook: Option<Hook>,
    pub rules: Vec<Rule>,
}

/// Where packets enter a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    pub point: Point,
    pub ipv4: bool,
    pub ipv6: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Of a network device.
    Ingress,
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
    /// Of a network device.
    Egress,
}

impl Point {
    /// The hooks that a packet on loopback passes.
    pub const LOOPBACK: [Self; 6] = [
        Self::Output,
        Self::Postrouting,
        Self::Egress,
        Self::Ingress,
        Self::Prerouting,
        Self::Input,
    ];
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// Cost of its own expressions.
    pub expressions: u64,
    /// The kernel follows at most one of these.
    pub branches: Vec<Branch>,
}

/// How a rule continues elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    /// Continues with the next rule after the end of the chain.
    Jump(Index),
    /// Never returns to the rule's chain.
    Goto(Index),
    Map(Index),
}

/// Branches by the value of a field; none is a [`Branch::Map`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerdictMap {
    pub branches: Vec<Branch>,
}

impl PacketFilter {
    /// An upper bound of the expressions that one packet on loopback evaluates at all hooks, for the costlier version of
    /// IP. `u64::MAX` where chains form a loop or refer to a chain that does not exist: the kernel has neither, so the
    /// rules changed while they were read.
    pub fn evaluations(&self) -> u64 {
        let mut walk = Walk::new(self);
        Point::LOOPBACK
            .into_iter()
            .map(|point| walk.at(point))
            .fold(Versions::default(), Versions::then)
            .costlier()
    }

    /// The same for one hook.
    pub fn evaluations_at(&self, point: Point) -> u64 {
        Walk::new(self).at(point).costlier()
    }
}

/// The cost for each version of IP.
#[derive(Debug, Clone, Copy, Default)]
struct Versions {
    ipv4: u64,
    ipv6: u64,
}

impl Versions {
    fn then(self, next: Self) -> Self {
        Self {
            ipv4: self.ipv4.saturating_add(next.ipv4),
            ipv6: self.ipv6.saturating_add(next.ipv6),
        }
    }

    fn costlier(self) -> u64 {
        max(self.ipv4, self.ipv6)
    }
}

/// The kernel's limit of nested calls (`NFT_JUMP_STACK_SIZE`).
const DEPTH: usize = 16;

/// The cost of each chain is computed once.
struct Walk<'a> {
    filter: &'a PacketFilter,
    /// None while the chain's cost is unknown or being computed.
    costs: Vec<Option<u64>>,
    entered: Vec<bool>,
}

impl<'a> Walk<'a> {
    fn new(filter: &'a PacketFilter) -> Self {
        Self {
            filter,
            costs: vec![None; filter.chains.len()],
            entered: vec![false; filter.chains.len()],
        }
    }

    fn at(&mut self, point: Point) -> Versions {
        let mut all = Versions::default();
        for (index, chain) in self.filter.chains.iter().enumerate() {
            let Some(hook) = chain.hook.filter(|hook| hook.point == point) else {
                continue;
            };
            let cost = self.chain(index, 0);
            let of = |applies| if applies { cost } else { 0 };
            all = all.then(Versions {
                ipv4: of(hook.ipv4),
                ipv6: of(hook.ipv6),
            });
        }
        all
    }

    fn chain(&mut self, index: Index, depth: usize) -> u64 {
        let Some(chain) = self.filter.chains.get(index) else {
            return u64::MAX;
        };
        if let Some(cost) = self.costs[index] {
            return cost;
        }
        // A loop, or nested deeper than the kernel accepts.
        if self.entered[index] || depth > DEPTH {
            return u64::MAX;
        }
        self.entered[index] = true;
        // From the last rule to the first: the cost of each rule and of all that may follow it.
        let cost = chain.rules.iter().rev().fold(0, |following, rule| {
            let branches = rule.branches.iter();
            let worst = branches.fold(following, |worst, branch| {
                max(worst, self.branch(*branch, following, depth))
            });
            worst.saturating_add(rule.expressions)
        });
        self.costs[index] = Some(cost);
        cost
    }

    fn branch(&mut self, branch: Branch, following: u64, depth: usize) -> u64 {
        match branch {
            Branch::Jump(chain) => self.chain(chain, depth + 1).saturating_add(following),
            Branch::Goto(chain) => self.chain(chain, depth + 1),
            Branch::Map(map) => self.map(map, following, depth),
        }
    }

    fn map(&mut self, map: Index, following: u64, depth: usize) -> u64 {
        let Some(map) = self.filter.maps.get(map) else {
            return u64::MAX;
        };
        let branches = map.branches.iter();
        branches.fold(following, |worst, branch| {
            let cost = match branch {
                Branch::Map(_) => u64::MAX,
                branch => self.branch(*branch, following, depth),
            };
            max(worst, cost)
        })
    }
}

#[cfg(test)]
mod tests;

//! Execs that the kernel denies because it cannot open the program for the holder.
//!
//! One of them concerns one container. Several in a row, of different pods and without a held start in between, mean that
//! the holder itself is refused, for instance by a security module: then every hold would break a start.

use std::{collections::BTreeSet, time::Duration};

use crate::base::id::PodUid;

/// This many pods in a row pause the holding of starts.
const MAX_PODS: usize = 3;
/// The first pause. Each further one is twice as long, until a start is held.
const SHORTEST: Duration = Duration::from_mins(5);
const LONGEST: Duration = Duration::from_hours(1);

#[derive(Debug, Default)]
pub struct Denials {
    /// Disjoint sets of pods: at least one pod of each set had an exec denied.
    suspects: Vec<BTreeSet<PodUid>>,
    pauses: u32,
}

impl Denials {
    /// A start is held: the kernel can open programs for the holder.
    pub fn held(&mut self) {
        *self = Self::default();
    }

    /// The kernel denied an exec of one of these pods, and of this one if there is only one. Returns for how long no start
    /// is to be held, if there are too many denials.
    pub fn denied(&mut self, pods: BTreeSet<PodUid>) -> Option<Duration> {
        if pods.is_empty() {
            return None;
        }
        let mut suspects = self.suspects.iter_mut();
        if let Some(known) = suspects.find(|known| pods.is_subset(known)) {
            *known = pods;
        } else if self.suspects.iter().all(|known| known.is_disjoint(&pods)) {
            self.suspects.push(pods);
        }
        if self.suspects.len() < MAX_PODS {
            return None;
        }
        let pause = SHORTEST.saturating_mul(1 << self.pauses.min(8));
        *self = Self {
            pauses: self.pauses.saturating_add(1),
            ..Self::default()
        };
        Some(pause.min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(number: u8) -> PodUid {
        PodUid::parse(&format!("00000000-0000-0000-0000-0000000000{number:02}")).unwrap()
    }

    fn pods(numbers: &[u8]) -> BTreeSet<PodUid> {
        numbers.iter().copied().map(pod).collect()
    }

    #[test]
    fn one_pod_never_causes_a_pause() {
        let mut denials = Denials::default();
        assert!((0..100).all(|_| denials.denied(pods(&[1])).is_none()));
        // Nor beside pods that start at the same time, while it is not known whose exec was denied.
        let mut denials = Denials::default();
        assert!((2..100).all(|other| denials.denied(pods(&[1, other])).is_none()));
    }

    #[test]
    fn several_pods_cause_a_pause_also_if_it_is_not_known_which() {
        let mut denials = Denials::default();
        for several in [&[1, 2][..], &[2, 3], &[3, 4], &[1, 4], &[]] {
            assert_eq!(denials.denied(pods(several)), None);
        }
        assert_eq!(denials.denied(pods(&[5, 6])), Some(SHORTEST));
    }

    #[test]
    fn denial_of_an_unknown_pod_does_not_hide_those_of_known_ones() {
        let mut denials = Denials::default();
        for known in [&[1, 2, 3][..], &[1], &[2]] {
            assert_eq!(denials.denied(pods(known)), None);
        }
        assert_eq!(denials.denied(pods(&[3])), Some(SHORTEST));
    }

    #[test]
    fn pause_doubles_until_a_start_is_held() {
        let mut denials = Denials::default();
        let three = |denials: &mut Denials| {
            let pauses = [1, 2, 3].map(|number| denials.denied(pods(&[number])));
            assert_eq!(pauses[..2], [None, None]);
            pauses[2].unwrap().as_secs() / 60
        };
        assert_eq!(
            [(); 6].map(|()| three(&mut denials)),
            [5, 10, 20, 40, 60, 60]
        );
        denials.held();
        assert_eq!(three(&mut denials), 5);
    }

    proptest! {
        /// A pause needs that many different pods since the last held start or pause.
        #[test]
        fn pause_needs_several_pods_without_a_held_start(
            events in prop::collection::vec(prop::option::of(0..5_u8), 0..200)
        ) {
            let mut denials = Denials::default();
            let mut since = BTreeSet::new();
            for event in events {
                let Some(number) = event else {
                    denials.held();
                    since.clear();
                    continue;
                };
                since.insert(number);
                let pause = denials.denied(pods(&[number]));
                prop_assert_eq!(pause.is_some(), since.len() == MAX_PODS);
                if let Some(pause) = pause {
                    prop_assert!((SHORTEST..=LONGEST).contains(&pause));
                    since.clear();
                }
            }
        }
    }
}

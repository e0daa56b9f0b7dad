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
    pods: BTreeSet<PodUid>,
    /// Denials of execs with an unknown container.
    unknown: usize,
    pauses: u32,
}

impl Denials {
    /// A start is held: the kernel can open programs for the holder.
    pub fn held(&mut self) {
        *self = Self::default();
    }

    /// The kernel denied an exec of this pod, if the pod is known. Returns for how long no start is to be held, if
    /// there are too many denials.
    pub fn denied(&mut self, pod: Option<&PodUid>) -> Option<Duration> {
        match pod {
            Some(pod) => drop(self.pods.insert(pod.clone())),
            None => self.unknown += 1,
        }
        if self.pods.len() + self.unknown < MAX_PODS {
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

    #[test]
    fn one_pod_never_causes_a_pause() {
        let mut denials = Denials::default();
        assert!((0..100).all(|_| denials.denied(Some(&pod(1))).is_none()));
    }

    #[test]
    fn pause_doubles_until_a_start_is_held() {
        let mut denials = Denials::default();
        let mut three = || {
            let pauses = [1, 2, 3].map(|number| denials.denied(Some(&pod(number))));
            assert_eq!(pauses[..2], [None, None]);
            pauses[2].unwrap().as_secs() / 60
        };
        assert_eq!([(); 6].map(|()| three()), [5, 10, 20, 40, 60, 60]);
        denials.held();
        let unknown = [(); 3].map(|()| denials.denied(None));
        assert_eq!(unknown, [None, None, Some(SHORTEST)]);
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
                let pause = denials.denied(Some(&pod(number)));
                prop_assert_eq!(pause.is_some(), since.len() == MAX_PODS);
                if let Some(pause) = pause {
                    prop_assert!((SHORTEST..=LONGEST).contains(&pause));
                    since.clear();
                }
            }
        }
    }
}

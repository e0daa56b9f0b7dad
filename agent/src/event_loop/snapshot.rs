//! A snapshot of the engine's state for the admin socket.

use usher_core::{
    admin,
    base::id::{ContainerId, ContainerKey, PodUid},
};

use super::{NodeLoop, View};

impl NodeLoop {
    pub(super) fn view(&mut self) -> View {
        let mut pods = self.engine.pods();
        for pod in &mut pods {
            let Ok(uid) = PodUid::parse(&pod.uid) else {
                continue;
            };
            for container in &mut pod.containers {
                let id = container.id.as_deref().map(ContainerId::parse);
                let Some(Ok(id)) = id else { continue };
                let pod = uid.clone();
                let living = self.discovery.living(&ContainerKey { pod, id });
                container.pid = living.map(|living| living.init.pidfd.pid().0);
            }
        }
        let features = self.engine.features();
        View {
            pods,
            modes: self.engine.modes(),
            lacks: features.map(admin::Lacks::from).unwrap_or_default(),
            census: self.engine.census(),
        }
    }
}

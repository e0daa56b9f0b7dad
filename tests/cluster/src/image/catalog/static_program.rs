//! The images of istiod, of Dapr's sidecar and of the Cloud SQL proxy: one static program each, as published.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{
    CLOUD_SQL_PROXY, DAPR, ISTIO_PILOT, ISTIO_UID, NONROOT_UID, RECIPE, base, image, user,
    with_program,
};
use crate::{
    cache::{self, KeyBuilder},
    programs::{Helpers, Istio},
};

pub(super) fn images(helpers: &Helpers) -> Result<Vec<PathBuf>> {
    let key = KeyBuilder::default()
        .input("recipe", RECIPE)
        .input("static_program", include_bytes!("static_program.rs"));
    let key = with_program(key, "daprd", &helpers.daprd);
    let key = with_program(key, "cloud-sql-proxy", &helpers.cloud_sql_proxy);
    let dir = cache::entry("static-program-images", &key.finish(), |dir| {
        // Dapr's image has no entrypoint: its injector names the program in the arguments.
        write(DAPR, "/daprd", &helpers.daprd, false, dir)?;
        let proxy = &helpers.cloud_sql_proxy;
        write(CLOUD_SQL_PROXY, "/cloud-sql-proxy", proxy, true, dir)
    })?;
    Ok(["daprd.tar", "cloud-sql-proxy.tar"]
        .map(|name| dir.join(name))
        .to_vec())
}

pub(super) fn pilot(istio: &Istio) -> Result<PathBuf> {
    let key = KeyBuilder::default()
        .input("recipe", RECIPE)
        .input("static_program", include_bytes!("static_program.rs"));
    let key = with_program(key, "pilot-discovery", &istio.discovery);
    let dir = cache::entry("pilot-images", &key.finish(), |dir| {
        let place = "/usr/local/bin/pilot-discovery";
        let layer = base().file(place, &istio.discovery, 0o755);
        let image = image(ISTIO_PILOT, vec![&layer], place, &user(ISTIO_UID));
        image.write(&dir.join("pilot.tar"))
    })?;
    Ok(dir.join("pilot.tar"))
}

fn write(name: &str, place: &str, program: &Path, is_entrypoint: bool, dir: &Path) -> Result<()> {
    let layer = base().file(place, program, 0o755);
    let mut image = image(name, vec![&layer], place, &user(NONROOT_UID));
    if !is_entrypoint {
        image.config.entrypoint.clear();
    }
    let file = place.trim_start_matches('/');
    image.write(&dir.join(format!("{file}.tar")))
}

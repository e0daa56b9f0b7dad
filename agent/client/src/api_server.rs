//! Client of the API server.

use kube::{Client, Config};

/// A client with the credentials of the pod or of the kubeconfig. It never retries: its callers have their own backoff.
pub async fn client() -> anyhow::Result<Client> {
    let mut config = Config::infer().await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

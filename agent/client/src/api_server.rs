//! Client of the API server.

use kube::{Client, Config};

/// A client with the credentials of the pod or of the kubeconfig. It never retries, because its callers have a backoff.
pub async fn client() -> anyhow::Result<Client> {
    let config = Config::infer().await?;
    Ok(without_retry(config)?)
}

fn without_retry(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    Client::try_from(config)
}

#[cfg(test)]
mod tests;

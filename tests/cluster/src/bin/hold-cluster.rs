//! Starts a cluster, prints its process ids as one line of JSON, and holds it until
//! it is killed. The tests kill it to see what is left.

use numo_cluster::{Cluster, Options};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    println!("{}", serde_json::to_string(&cluster.pids())?);
    std::future::pending::<()>().await;
    cluster.stop().await;
    Ok(())
}

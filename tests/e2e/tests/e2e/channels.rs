//! Channels of Plans: servers that name a version, answer nonsense or nothing, and stand behind a proxy and an authority
//! of the administrator's.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use anyhow::{Context, Result};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, rustls};

use crate::{
    apply, gone,
    plans::{complete, condition, events, plan, plans, said, stage, status, until},
};

/// The head of a request: its lines.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A server of channels: what it answers, and the headers that it was asked with, names in lower case.
#[derive(Clone, Default)]
struct Channel {
    answer: Arc<Mutex<(u16, String)>>,
    asked: Arc<Mutex<Vec<BTreeMap<String, String>>>>,
}

impl Channel {
    async fn serve(status: u16, text: &str) -> Result<(Self, String)> {
        let channel = Self::default();
        channel.says(status, text);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/channels/stable", listener.local_addr()?);
        let serving = channel.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().answer(stream));
            }
        });
        Ok((channel, url))
    }

    async fn answer(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
        let text = head(&mut stream).await?;
        let headers = text.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        self.asked.lock().unwrap().push(headers.collect());
        let (status, text) = self.answer.lock().unwrap().clone();
        let answer = match status {
            0 => std::future::pending().await,
            302 => format!("HTTP/1.1 302 Found\r\nlocation: {text}\r\ncontent-length: 0\r\n\r\n"),
            other => format!(
                "HTTP/1.1 {other} Said\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            ),
        };
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
        Ok(())
    }

    /// Serves it as https://channels.example.com behind a proxy; the proxy's address, whom it was asked for, and the
    /// certificate of the authority.
    async fn serve_behind_a_proxy(self) -> Result<(String, Arc<Mutex<Vec<String>>>, String)> {
        let mut authority = rcgen::CertificateParams::default();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate()?)?;
        let pair = rcgen::KeyPair::generate()?;
        let own = rcgen::CertificateParams::new(vec!["channels.example.com".to_owned()])?;
        let certificate = own.signed_by(&pair, &issuer)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(pair.serialize_der())
                    .map_err(anyhow::Error::msg)?,
            )?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let proxy = listener.local_addr()?.to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (channel, acceptor, seen) = (self.clone(), acceptor.clone(), seen.clone());
                tokio::spawn(async move {
                    let head = head(&mut stream).await?;
                    let target = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
                    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
                    seen.lock().unwrap().push(target.clone());
                    if target == "channels.example.com:443" {
                        return channel.answer(acceptor.accept(stream).await?).await;
                    }
                    // The API server, say.
                    let mut other = tokio::net::TcpStream::connect(target).await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut other).await?;
                    anyhow::Ok(())
                });
            }
        });
        Ok((proxy, asked, issuer.pem()))
    }

    fn says(&self, status: u16, text: &str) {
        *self.answer.lock().unwrap() = (status, text.to_owned());
    }

    fn asked(&self) -> Vec<BTreeMap<String, String>> {
        self.asked.lock().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_names_the_version_and_a_bad_one_is_said() -> Result<()> {
    let stage = stage(1, Vec::new()).await?;
    // As the releases of GitHub write a plus.
    let (channel, url) = Channel::serve(302, "/releases/tag/v1.31.0%2Bk3s1").await?;
    let url = url.replace("http://", "http://ada:s3&cr%2Bet@");
    let spec = json!({"version": null, "channel": url, "cordon": true});
    apply(&stage, &[plan("k3s", "true", spec)]).await?;
    let done = complete(&stage, "k3s").await?;
    assert_eq!(done.latest_version.as_deref(), Some("v1.31.0-k3s1"));
    assert_eq!(
        condition(&done, "LatestResolved"),
        ("True".into(), "Channel".into(), String::new())
    );
    let asked = channel.asked();
    assert_eq!(asked.len(), 1, "once, whatever the nodes do");
    let cluster = Api::<k8s_openapi::api::core::v1::Namespace>::all(stage.client.clone())
        .get("kube-system")
        .await?
        .uid()
        .context("a uid")?;
    assert_eq!(asked[0]["x-suc-cluster-id"], cluster.as_str());
    assert!(!asked[0].contains_key("x-suc-latest-version"));
    let user = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "ada:s3&cr+et");
    assert_eq!(asked[0]["authorization"], format!("Basic {user}"));
    // Who reads conditions and events need not read the Plan.
    channel.says(500, "");
    let spec = json!({"version": null, "channel": url, "cordon": true});
    apply(&stage, &[plan("secret", "true", spec)]).await?;
    let (_, message) = until(&stage, "secret", "LatestResolved", "False", "Error").await?;
    let events = events(&stage, "secret").await?;
    assert!(
        !message.contains("s3&cr") && !format!("{events:?}").contains("s3&cr"),
        "{message} {events:?}"
    );

    // Answers that name no version: condition, event, and no Job.
    for (name, status, text, words) in [
        ("failing", 500, "", "unexpected response: 500"),
        ("page", 200, "<html>log in</html>", "\"stable\" is no version"),
        ("nowhere", 302, "", "which ends in no version"),
    ] {
        let (_channel, url) = Channel::serve(status, text).await?;
        let url = if status == 302 {
            url.replace("/channels/stable", "/")
        } else {
            url
        };
        let spec = json!({"version": null, "channel": url, "cordon": true});
        apply(&stage, &[plan(name, "true", spec)]).await?;
        let (_, message) = until(&stage, name, "LatestResolved", "False", "Error").await?;
        assert!(message.contains(words), "{message}");
        until(&stage, name, "Complete", "False", "NotReady").await?;
        said(&stage, name, "ResolveFailed").await?;
    }
    // One that hangs holds up nobody, and one that loops is asked once.
    let (hangs, url) = Channel::serve(0, "").await?;
    apply(
        &stage,
        &[plan(
            "hangs",
            "true",
            json!({"version": null, "channel": url, "cordon": true}),
        )],
    )
    .await?;
    stage
        .until("it is asked", 30, || async {
            Ok((!hangs.asked().is_empty()).then_some(()))
        })
        .await?;
    let (loops, url) = Channel::serve(302, "/channels/stable").await?;
    apply(
        &stage,
        &[plan(
            "loops",
            "true",
            json!({"version": null, "channel": url, "cordon": true}),
        )],
    )
    .await?;
    let (_, message) = until(&stage, "loops", "LatestResolved", "False", "Error").await?;
    assert!(message.contains("which is the channel itself"), "{message}");
    assert_eq!(loops.asked().len(), 1);
    let (_, message) = until(&stage, "hangs", "LatestResolved", "False", "Error").await?;
    assert!(!message.is_empty(), "it is said in the end");
    said(&stage, "hangs", "ResolveFailed").await?;
    for spec in [
        json!({"version": null, "cordon": true}),
        json!({"version": null, "channel": "no url", "cordon": true}),
        json!({"version": "a/b", "cordon": true}),
    ] {
        apply(&stage, &[plan("bad", "true", spec)]).await?;
        until(&stage, "bad", "LatestResolved", "False", "Error").await?;
        plans(&stage).delete("bad", &DeleteParams::default()).await?;
        gone(&stage, &plans(&stage), "bad").await?;
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_fails_keeps_the_version_it_named() -> Result<()> {
    let stage = stage(1, vec!["--plan-polling-interval", "61s"]).await?;
    let (channel, url) = Channel::serve(302, "/v1.31.0").await?;
    let spec = json!({"version": null, "channel": url, "cordon": true});
    apply(&stage, &[plan("k3s", "true", spec)]).await?;
    complete(&stage, "k3s").await?;
    channel.says(500, "");
    let mut stage = stage;
    stage.kill_numo().await?;
    // A restart does not ask again before its time.
    stage.start_numo()?;
    let message = stage
        .until("it says that the channel fails", 120, || async {
            let events = events(&stage, "k3s").await?;
            Ok(events.into_iter().find(|(reason, ..)| reason == "ResolveFailed"))
        })
        .await?;
    let asked = channel.asked();
    assert_eq!(asked.len(), 2, "{message:?}, and no sooner");
    assert_eq!(asked[1]["x-suc-latest-version"], "v1.31.0");
    let after = status(&stage, "k3s").await?;
    assert_eq!(after.latest_version.as_deref(), Some("v1.31.0"));
    assert_eq!(condition(&after, "Complete").0, "True");
    assert!(condition(&after, "LatestResolved").2.contains("500"));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_is_asked_through_a_proxy_and_trusted_by_an_authority_of_the_administrators() -> Result<()>
{
    let (channel, _) = Channel::serve(302, "/v1.31.0").await?;
    let (proxy, asked, authority) = channel.clone().serve_behind_a_proxy().await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ca.pem");
    let mut stage = stage(1, Vec::new()).await?;
    stage.kill_numo().await?;
    let url = "https://channels.example.com/channels/stable";
    let spec = json!({"version": null, "channel": url, "cordon": true});
    apply(&stage, &[plan("k3s", "true", spec)]).await?;
    let environment = [("HTTPS_PROXY", format!("http://{proxy}"))];

    // Nobody vouches for it yet.
    stage.start_numo_in(&[], &environment)?;
    let (_, message) = until(&stage, "k3s", "LatestResolved", "False", "Error").await?;
    assert!(message.to_lowercase().contains("certificate"), "{message}");
    assert!(channel.asked().is_empty());
    stage.kill_numo().await?;

    std::fs::write(&path, authority)?;
    let flags = ["--plan-channel-ca", path.to_str().context("a path")?];
    stage.start_numo_in(&flags, &environment)?;
    let done = complete(&stage, "k3s").await?;
    assert_eq!(done.latest_version.as_deref(), Some("v1.31.0"));
    assert_eq!(channel.asked()[0]["host"], "channels.example.com");
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().any(|target| target == "channels.example.com:443"));
    stage.strike().await
}

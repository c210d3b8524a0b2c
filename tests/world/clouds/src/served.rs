//! A server on loopback for as long as it is held, and a way for providers to reach it natively. Knows no cloud.

use axum::Router;
use numo_provider_sdk::{
    Error, ErrorCode,
    host::{Method, Request, Response},
};
use std::{io, net::SocketAddr, thread};
use tokio::sync::oneshot;

/// A server that ends when this is dropped.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Served {
    /// Serves a router on a free port of loopback, in a thread of its own.
    ///
    /// Errors: there is no port, or no thread.
    pub fn start(router: Router) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("cloud".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let end = async {
                    // Held until the test drops it.
                    let _: Result<(), _> = stopped.await;
                };
                tokio::select! {
                    served = async { axum::serve(listener, router).await } => served,
                    () = end => Ok(()),
                }
            })
        })?;
        Ok(Self { address, _stop: stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A way to a server on loopback, whatever host the URL of a request names. Connections are kept for the next request.
#[derive(Clone, Debug)]
pub struct Loopback {
    agent: ureq::Agent,
    address: SocketAddr,
}

impl Loopback {
    /// To the server that listens here.
    pub fn to(address: SocketAddr) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        Self { agent, address }
    }

    /// Sends a request (method and URL) once, with these headers and no others that a server looks at, but for `x-forwarded-host`: the host
    /// of the URL. Blocks.
    ///
    /// Errors: words for people why there is no answer.
    pub fn send<'a>(
        &self,
        (method, url): (&str, &str),
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        body: Vec<u8>,
    ) -> Result<Response, String> {
        let rest = url.strip_prefix("https://").ok_or("wanted https")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut builder = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}/{path}", self.address))
            .header("x-forwarded-host", host);
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        let built = builder.body(body).map_err(|error| error.to_string())?;
        let mut answer = self.agent.run(built).map_err(|error| error.to_string())?;
        let headers = answer.headers().iter();
        let headers = headers.map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        });
        Ok(Response {
            status: answer.status().as_u16(),
            headers: headers.collect(),
            body: answer
                .body_mut()
                .read_to_vec()
                .map_err(|error| error.to_string())?,
        })
    }
}

/// Sends what a provider asks to a server on loopback, whatever host the URL names; the host goes along in the header `x-forwarded-host`, and what the
/// request is to be signed with in `x-authorization` (`scheme credential`).
pub fn native(address: SocketAddr) -> impl Fn(&Request) -> Result<Response, Error> {
    let loopback = Loopback::to(address);
    move |request| send(&loopback, request).map_err(unavailable)
}

fn unavailable(words: String) -> Error {
    Error {
        code: ErrorCode::Unavailable,
        message: words,
        details: Vec::new(),
    }
}

fn send(loopback: &Loopback, request: &Request) -> Result<Response, String> {
    let method = match request.method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    };
    let signed = request.authorization.as_ref();
    let signed = signed.map(|signed| format!("{} {}", signed.scheme, signed.credential));
    let own = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()));
    let signed = signed.iter().map(|text| ("x-authorization", text.as_bytes()));
    loopback.send(
        (method, request.url.as_str()),
        own.chain(signed),
        request.body.clone(),
    )
}

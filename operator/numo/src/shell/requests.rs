//! What requests to the API server cost: each that is answered is told to whoever counts. The command line counts none.

use http::{Method, Request, Response};
use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tower::{Layer, Service};

/// A request that is over: what it asked for, the status of the answer if there was one, and how long its head took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// As roles name it; `get` is `list` too.
    pub verb: &'static str,
    /// HTTP status.
    pub code: Option<u16>,
    /// From the request on.
    pub took: Duration,
}

type Count = Box<dyn Fn(Answered) + Send + Sync>;

/// Who counts requests, once that is known.
#[derive(Clone, Default)]
pub struct Requests(Arc<OnceLock<Count>>);

impl Requests {
    /// Has every request from now on counted. The first who says so counts.
    pub fn count(&self, count: impl Fn(Answered) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(count));
    }

    fn tell(&self, answered: Answered) {
        if let Some(count) = self.0.get() {
            count(answered);
        }
    }
}

/// Every verb that is told.
pub const VERBS: [&str; 6] = ["get", "watch", "create", "update", "patch", "delete"];

fn verb<B>(request: &Request<B>) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    match *request.method() {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ if query.split('&').any(|one| one == "watch=true") => "watch",
        _ => "get",
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            requests: self.clone(),
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    requests: Requests,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (verb, begun) = (verb(&request), Instant::now());
        let asked = Asked {
            requests: self.requests.clone(),
            verb,
            begun,
            code: None,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            // All of it, not only the field that is written.
            let mut asked = asked;
            let answer = answer.await;
            asked.code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            answer
        })
    }
}

/// A request that is under way. It is told once, also when whoever asked gives up on the answer.
struct Asked {
    requests: Requests,
    verb: &'static str,
    begun: Instant,
    code: Option<u16>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.requests.tell(Answered {
            verb: self.verb,
            code: self.code,
            took: self.begun.elapsed(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    type Told = (&'static str, Option<u16>);

    #[tokio::test]
    async fn each_answer_is_told_with_its_verb_and_status_and_one_that_fails_without() {
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let requests = Requests::default();
        let keep = told.clone();
        requests.count(move |one| keep.lock().unwrap().push((one.verb, one.code)));
        let server = tower::service_fn(async |request: Request<()>| match request.uri().path() {
            "/gone" => Err("no connection"),
            "/full" => Ok(Response::builder().status(429).body(()).unwrap()),
            _ => Ok(Response::new(())),
        });
        let mut counted = requests.layer(server);
        for (method, path) in [
            ("GET", "/pods?limit=500"),
            ("GET", "/pods?watch=true&resourceVersion=1"),
            ("POST", "/full"),
            ("PUT", "/status"),
            ("PATCH", "/node"),
            ("DELETE", "/gone"),
        ] {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            assert_eq!(counted.call(request).await.is_err(), path == "/gone", "{path}");
        }
        let first = told.lock().unwrap().clone();
        let wanted = [
            ("get", Some(200)),
            ("watch", Some(200)),
            ("create", Some(429)),
            ("update", Some(200)),
            ("patch", Some(200)),
            ("delete", None),
        ];
        assert_eq!(first, wanted);
        assert_eq!(first.iter().map(|(verb, _)| *verb).collect::<Vec<_>>(), VERBS);
        // Whoever asked has given up on the answer.
        drop(counted.call(Request::builder().uri("/pods").body(()).unwrap()));
        assert_eq!(told.lock().unwrap().last(), Some(&("get", None)));
    }
}

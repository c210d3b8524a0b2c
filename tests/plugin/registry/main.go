// A registry for tests: go-containerregistry's, the one behind `crane registry serve`, with what that command does not
// offer: the referrers API, TLS and basic authorisation. It keeps everything in memory and ends with its standard input.
package main

import (
	"crypto/subtle"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	certificate := flag.String("certificate", "", "PEM file; plain HTTP without")
	key := flag.String("key", "", "PEM file")
	user := flag.String("user", "", "who may push and pull; everybody without")
	password := flag.String("password", "", "of the user")
	flag.Parse()

	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()

	var handler http.Handler = registry.New(registry.WithReferrersSupport(true))
	if *user != "" {
		handler = authorised(handler, *user, *password)
	}
	server := &http.Server{Addr: *address, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	if *certificate != "" {
		log.Fatal(server.ListenAndServeTLS(*certificate, *key))
	}
	log.Fatal(server.ListenAndServe())
}

func authorised(next http.Handler, user, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, ok := r.BasicAuth()
		same := func(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
		if !ok || !same(u, user) || !same(p, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

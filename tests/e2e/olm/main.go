// olm runs the operators of OLM v0 as processes, and what they would have pods for.
//
// The operators are OLM's own, by its own constructors. Left out are their servers of metrics, which listen on every address
// of the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	configclientset "github.com/openshift/client-go/config/clientset/versioned"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/catalog"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/olm"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/validatingroundtripper"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/operatorclient"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/signals"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/cache"
	"github.com/operator-framework/operator-registry/pkg/configmap"
	"github.com/operator-framework/operator-registry/pkg/server"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	health "google.golang.org/grpc/health/grpc_health_v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	utilclock "k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const usage = `usage:
  olm operator                       olm-operator, by KUBECONFIG
  olm catalog NAMESPACE              catalog-operator, by KUBECONFIG; NAMESPACE has the catalogues of all
  olm serve DIR FILE                 serves a file-based catalogue on loopback, and writes the address into FILE
  olm unpack DIR alpha bundle extract ...   what a Job's container of the image opm does; DIR has the bundles by their images
`

// Both operators look again this often, should they miss an event.
const interval = 5 * time.Minute

func main() {
	logger := logrus.New()
	logger.SetOutput(os.Stdout)
	ctrl.SetLogger(zap.New())
	args := os.Args[1:]
	var err error
	switch {
	case len(args) == 1 && args[0] == "operator":
		err = runOperator(signals.Context(), logger)
	case len(args) == 2 && args[0] == "catalog":
		err = runCatalog(signals.Context(), logger, args[1])
	case len(args) == 3 && args[0] == "serve":
		err = serve(signals.Context(), logger, args[1], args[2])
	case len(args) > 2 && args[0] == "unpack":
		err = unpack(args[1], args[2:])
	default:
		err = errors.New(usage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runOperator is what cmd/olm of the module sets up.
func runOperator(ctx context.Context, logger *logrus.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	manager, err := reconcilers(config)
	if err != nil {
		return fmt.Errorf("reconcilers: %w", err)
	}
	validating := validatingroundtripper.Wrap(config, manager.GetScheme())
	openshift, err := configclientset.NewForConfig(config)
	if err != nil {
		return err
	}
	cluster, err := operatorclient.NewClientFromRestConfig(validating)
	if err != nil {
		return err
	}
	resources, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	metadata, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	op, err := olm.NewOperator(ctx,
		olm.WithLogger(logger),
		olm.WithWatchedNamespaces(metav1.NamespaceAll),
		olm.WithResyncPeriod(func() time.Duration { return interval }),
		olm.WithExternalClient(resources),
		olm.WithMetadataClient(metadata),
		olm.WithOperatorClient(cluster),
		olm.WithRestConfig(validating),
		olm.WithConfigClient(openshift),
	)
	if err != nil {
		return err
	}
	op.Run(ctx)
	<-op.Ready()
	return manager.Start(ctx)
}

// reconcilers has the controllers beside the queues of olm-operator: OperatorConditions, and the Operator of each package.
func reconcilers(config *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	if err := operators.AddToScheme(scheme); err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	type reconciler interface{ SetupWithManager(ctrl.Manager) error }
	log := ctrl.Log.WithName("controllers")
	var c client.Client = manager.GetClient()
	condition, err := operators.NewOperatorConditionReconciler(c, log.WithName("operatorcondition"), scheme)
	if err != nil {
		return nil, err
	}
	generator, err := operators.NewOperatorConditionGeneratorReconciler(c, log.WithName("operatorcondition-generator"), scheme)
	if err != nil {
		return nil, err
	}
	operator, err := operators.NewOperatorReconciler(c, log.WithName("operator"), scheme)
	if err != nil {
		return nil, err
	}
	adoption, err := operators.NewAdoptionReconciler(c, log.WithName("adoption"), scheme)
	if err != nil {
		return nil, err
	}
	for _, one := range []reconciler{condition, generator, operator, adoption} {
		if err := one.SetupWithManager(manager); err != nil {
			return nil, err
		}
	}
	return manager, nil
}

// runCatalog is what cmd/catalog of the module sets up.
func runCatalog(ctx context.Context, logger *logrus.Logger, namespace string) error {
	scheme := k8sscheme.Scheme
	if err := errors.Join(apiextensionsv1.AddToScheme(scheme), apiregistrationv1.AddToScheme(scheme)); err != nil {
		return err
	}
	const retry, unpackTimeout = time.Minute, 10 * time.Minute
	op, err := catalog.NewOperator(ctx, os.Getenv("KUBECONFIG"), utilclock.RealClock{}, logger, interval,
		"configmap-server", "opm", "util", namespace, scheme, retry, unpackTimeout, -1)
	if err != nil {
		return err
	}
	op.Run(ctx)
	<-op.Ready()
	<-op.Done()
	return nil
}

// serve is what "opm serve" does, on loopback only.
func serve(ctx context.Context, logger *logrus.Logger, dir, file string) error {
	folder, err := os.MkdirTemp("", "olm-serve-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	store, err := cache.New(folder, cache.WithLog(logrus.NewEntry(logger)))
	if err != nil {
		return err
	}
	defer store.Close()
	if err := cache.LoadOrRebuild(ctx, store, os.DirFS(dir)); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry := grpc.NewServer()
	api.RegisterRegistryServer(registry, server.NewRegistryServer(store))
	health.RegisterHealthServer(registry, server.NewHealthServer())
	// Whole, or not there.
	if err := os.WriteFile(file+".new", []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	context.AfterFunc(ctx, registry.Stop)
	return registry.Serve(listener)
}

// unpack is what "opm alpha bundle extract" does. Its folder is not the one of the Job's volume: nothing was pulled into it.
func unpack(bundles string, args []string) error {
	flags := flag.NewFlagSet("extract", flag.ContinueOnError)
	_ = flags.String("m", "", "the folder of the bundle")
	namespace := flags.String("n", "", "the ConfigMap's namespace")
	name := flags.String("c", "", "the ConfigMap's name")
	zip := flags.Bool("z", false, "gzip")
	const verb = "alpha bundle extract "
	if !strings.HasPrefix(strings.Join(args, " "), verb) {
		return errors.New(usage)
	}
	if err := flags.Parse(args[3:]); err != nil {
		return err
	}
	image := os.Getenv(configmap.EnvContainerImage)
	// As images have colons and slashes, their folders have dashes.
	folder := filepath.Join(bundles, strings.NewReplacer("/", "-", ":", "-", "@", "-").Replace(image))
	loader := configmap.NewConfigMapLoader(*name, *namespace, folder+"/", *zip, os.Getenv("KUBECONFIG"))
	// What opm has by default: 1 MiB less some for what is around it.
	const limit = 1 << 20
	return loader.Populate(limit)
}

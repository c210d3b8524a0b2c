// Command cluster is etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl in one binary: the first argument says which of
// them to be.
//
// It exists so that tests and the demo run against the real control plane on a
// machine without a container engine. Each component must run as a process of
// its own: in one process their global feature gates, configz and logging
// registries collide.
package main

import (
	"fmt"
	"io"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if os.Getenv("NUMO_CLUSTER_STDIN_IS_PARENT") != "" {
		go dieWithParent()
	}
	if len(os.Args) < 2 {
		usage()
	}
	component := os.Args[1]
	os.Args = append([]string{component}, os.Args[2:]...)
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		// The client that drains in a Plan's Jobs, and that numo's drain is measured against.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
	default:
		usage()
	}
}

// dieWithParent ends this process when its standard input closes. Whoever starts
// a component holds the other end of that pipe and never writes: the kernel
// closes it when the starter ends, however it ends, so a killed test run leaves
// no control plane behind that still holds its ports.
func dieWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: cluster etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl [flags]")
	os.Exit(2)
}

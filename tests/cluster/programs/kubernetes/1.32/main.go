// Command kubernetes is the program of the folder above for Kubernetes 1.32,
// where the kubelet's command has no context and kubectl no verbosity of its log.
package main

import (
	"fmt"
	"os"

	_ "time/tzdata" // CronJobs with a time zone; the node has no zoneinfo of its own.

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func server(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand()
	case "kube-proxy":
		return proxy.NewProxyCommand()
	}
	return nil
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	os.Args = os.Args[1:] // the component's own flag parsing starts here
	switch name := os.Args[0]; name {
	case "etcd":
		if err := runEtcd(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "etcd:", err)
			os.Exit(1)
		}
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	default:
		command := server(name)
		if command == nil {
			usage()
		}
		os.Exit(cli.Run(command))
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kubernetes etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|kubectl [flags]")
	os.Exit(2)
}

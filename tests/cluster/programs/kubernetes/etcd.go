package main

import (
	"errors"
	"flag"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"context"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd serves one member on loopback until SIGTERM. It never syncs to disk:
// the data is thrown away with the cluster.
func runEtcd(args []string) error {
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	dataDir := flags.String("data-dir", "", "where the member keeps its data")
	clientURL := flags.String("listen-client-url", "http://127.0.0.1:2379", "where the API server finds it")
	peerURL := flags.String("listen-peer-url", "http://127.0.0.1:2380", "peer address (there are no peers)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := url.Parse(*clientURL)
	if err != nil {
		return err
	}
	peer, err := url.Parse(*peerURL)
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Dir = *dataDir
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	config.LogLevel = "error" // at "warn" it writes a line for every slow request

	member, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer member.Close()
	select {
	case <-member.Server.ReadyNotify():
	case <-time.After(time.Minute):
		return errors.New("not ready within a minute")
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	select {
	case <-stop.Done():
		return nil
	case err := <-member.Err():
		return err
	}
}

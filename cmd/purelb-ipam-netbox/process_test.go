package main

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// asServer makes the test binary run as the server, so that the test can run it as a separate
// process.
const asServer = "PURELB_IPAM_NETBOX_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The server keeps nothing in memory: a new process knows the addresses that a killed one handed
// out.
func TestTheServerRemembersAfterItsEnd(t *testing.T) {
	box := netboxtest.New(netboxtest.V46)
	box.AddField(netboxtest.CustomField{Name: netbox.DefaultField, Unique: true})
	box.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("192.0.2.0/28")})
	web := httptest.NewServer(box)
	t.Cleanup(web.Close)
	folder, err := os.MkdirTemp("", "ipam")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	config := fmt.Sprintf("cluster: prod\npools: {default: {url: '%s', tokenEnv: NETBOX_TOKEN, parents: [{prefix: {cidr: 192.0.2.0/28}}]}}", web.URL)
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		cmd := start(t, folder)
		for i, want := range []string{"192.0.2.1", "192.0.2.2"} {
			reply, err := client(t, folder).Allocate(t.Context(), &ipamv1.AllocateRequest{
				Pool: "default", Service: fmt.Sprintf("default/web-%d", i),
				Selector: &ipamv1.AllocateRequest_Families{Families: &ipamv1.FamilyRequest{WantIpv4: true}},
			})
			if err != nil || len(reply.Ips) != 1 || reply.Ips[0].Ip != want {
				t.Errorf("got %v, %v, want %s", reply, err, want)
			}
		}
		end(t, cmd, signal)
	}
}

func start(t *testing.T, folder string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "--socket", filepath.Join(folder, "ipam.sock"), "--config", filepath.Join(folder, "config.yaml"))
	cmd.Env = append(os.Environ(), asServer+"=1", "NETBOX_TOKEN="+netboxtest.AdminToken)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, cmd, syscall.SIGKILL) })
	return cmd
}

// end sends a signal and waits for the end.
func end(t *testing.T, cmd *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	if cmd.ProcessState != nil {
		return
	}
	if err := cmd.Process.Signal(signal); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil && signal == syscall.SIGTERM {
		t.Errorf("the server ends with the error %v", err)
	}
}

// client waits for the server, however long it takes to start.
func client(t *testing.T, folder string) ipamv1.IPAMClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(folder, "ipam.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: time.Hour, // the machine may be busy
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return ipamv1.NewIPAMClient(conn)
}

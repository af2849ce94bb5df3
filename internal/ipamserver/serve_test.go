package ipamserver

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/testing/netboxtest"
)

func TestTheSocketIsForAllUsersOfThePod(t *testing.T) {
	w := newWorld(t, netboxtest.V46)
	info, err := os.Stat(w.serve(w.server("prod")))
	if err != nil || info.Mode() != os.ModeSocket|0o666 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

func TestTheSocketOfAKilledServerIsReplaced(t *testing.T) {
	socket := filepath.Join(newWorld(t, netboxtest.V46).folder, "ipam.sock")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listen(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "another program listens on") {
		t.Errorf("the socket of a running server: %v", err)
	}
}

func TestOtherFilesAreNotRemoved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "important")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(t.Context(), name); err == nil || !strings.Contains(err.Error(), "is no socket, and is left alone") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}

func TestTooLongPathIsAnError(t *testing.T) {
	_, err := listen(t.Context(), filepath.Join(t.TempDir(), strings.Repeat("x", 108)))
	if err == nil || !strings.Contains(err.Error(), "give --socket a path of at most 107 bytes") {
		t.Errorf("got %v", err)
	}
}

// slow reports the beginning of a call, and answers it when the test allows.
type slow struct {
	ipamv1.UnimplementedIPAMServer
	begun, end chan struct{}
}

func (s slow) Stats(context.Context, *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	close(s.begun)
	<-s.end
	return &ipamv1.StatsResponse{SizeV4: 7}, nil
}

func TestACallIsAnsweredBeforeTheEnd(t *testing.T) {
	socket := filepath.Join(newWorld(t, netboxtest.V46).folder, "ipam.sock")
	s := slow{begun: make(chan struct{}), end: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	listening, listens := context.WithCancel(t.Context())
	go func() { ended <- Serve(ctx, socket, s, slog.New(whenServing{slog.DiscardHandler, listens})) }()
	<-listening.Done()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { <-s.begun; stop(); close(s.end) }()
	reply, err := ipamv1.NewIPAMClient(conn).Stats(t.Context(), &ipamv1.StatsRequest{}, grpc.WaitForReady(true))
	if err != nil || reply.SizeV4 != 7 {
		t.Errorf("got %v, %v", reply, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ends with the error %v", err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket remains: %v", err)
	}
}

func TestAnEndBeforeTheFirstCallIsNoError(t *testing.T) {
	socket := filepath.Join(newWorld(t, netboxtest.V46).folder, "ipam.sock")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		// The log entry comes when the server listens and before it serves.
		log := slog.New(whenServing{slog.DiscardHandler, func() { stop(); synctest.Wait() }})
		if err := Serve(ctx, socket, ipamv1.UnimplementedIPAMServer{}, log); err != nil {
			t.Errorf("the server ends with the error %v", err)
		}
	})
}

package main

import (
	"context"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
)

// server hands out the addresses of its pools.
type server struct {
	ipamv1.UnimplementedIPAMServer
	pools map[string][]netip.Prefix

	mu   sync.Mutex // PureLB makes several calls at a time
	book book       // which holder has each address, on disk
}

func (s *server) Allocate(_ context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools[r.Pool] == nil {
		return nil, status.Errorf(codes.NotFound, "there is no pool %q", r.Pool)
	}
	holder := r.Pool + " " + r.Service
	var ips []netip.Addr
	for _, text := range r.GetExplicit().GetIps() {
		ip, err := netip.ParseAddr(text)
		if err != nil || !slices.ContainsFunc(s.pools[r.Pool], func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return nil, status.Errorf(codes.InvalidArgument, "%s is no address of the pool %q", text, r.Pool)
		}
		if other := s.book.held[ip]; other != "" && other != holder {
			return nil, status.Errorf(codes.AlreadyExists, "%s is held for %s", ip, other)
		}
		ips = append(ips, ip)
	}
	for bits, wanted := range map[int]bool{32: r.GetFamilies().GetWantIpv4(), 128: r.GetFamilies().GetWantIpv6()} {
		if ip := s.choose(r.Pool, holder, bits); wanted && ip.IsValid() {
			ips = append(ips, ip)
		} else if wanted {
			return nil, status.Errorf(codes.ResourceExhausted, "no address of %d bits is free in the pool %q", bits, r.Pool)
		}
	}
	reply := &ipamv1.AllocateResponse{}
	for _, ip := range ips {
		reply.Ips = append(reply.Ips, &ipamv1.AllocatedIP{Ip: ip.String()})
	}
	return reply, s.book.hold(holder, ips)
}

// choose returns the address that is held already, or else a free one.
func (s *server) choose(pool, holder string, bits int) netip.Addr {
	for ip, other := range s.book.held {
		if other == holder && ip.BitLen() == bits {
			return ip
		}
	}
	for _, p := range s.pools[pool] {
		for ip := p.Masked().Addr(); ip.BitLen() == bits && p.Contains(ip); ip = ip.Next() {
			if s.book.held[ip] == "" {
				return ip
			}
		}
	}
	return netip.Addr{}
}

func (s *server) Release(_ context.Context, r *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	released, _ := netip.ParseAddr(r.GetIp())
	return &ipamv1.ReleaseResponse{}, s.book.free(r.Pool+" "+r.Service, func(ip netip.Addr) bool { return r.GetAll() || ip == released })
}

func (s *server) Stats(_ context.Context, r *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := &ipamv1.StatsResponse{HasKnownCapacity: true}
	for _, p := range s.pools[r.Pool] {
		size := uint64(math.MaxUint64)
		if bits := p.Addr().BitLen() - p.Bits(); bits < 64 {
			size = 1 << bits
		}
		if p.Addr().Is4() {
			reply.SizeV4 += size
		} else {
			reply.SizeV6 += min(size, math.MaxUint64-reply.SizeV6)
		}
		reply.DisplayAddresses = append(reply.DisplayAddresses, p.String())
	}
	for ip, holder := range s.book.held {
		switch {
		case !strings.HasPrefix(holder, r.Pool+" "):
		case ip.Is4():
			reply.InUseV4++
		default:
			reply.InUseV6++
		}
	}
	return reply, nil
}

// Package ipamv1 is the contract between PureLB and programs that hand out addresses:
// purelb.ipam.v1, generated from ipam.proto, whose comments are the manual for people who write
// such a program.
//
// It knows no addresses and makes no calls by itself. internal/allocate/ipamgrpc is the client;
// docs/examples/ipam-server is a server.
package ipamv1

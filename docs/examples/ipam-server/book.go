package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
)

// book has the holder of each address, in memory and in a file.
type book struct {
	file string
	held map[netip.Addr]string
}

// read reads the file. At the first start, there is no file.
func (b *book) read() error {
	b.held = map[netip.Addr]string{}
	text, err := os.ReadFile(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, json.Unmarshal(text, &b.held))
}

func (b *book) hold(holder string, ips []netip.Addr) error {
	held := maps.Clone(b.held)
	for _, ip := range ips {
		held[ip] = holder
	}
	return b.write(held)
}

func (b *book) free(holder string, which func(netip.Addr) bool) error {
	held := maps.Clone(b.held)
	maps.DeleteFunc(held, func(ip netip.Addr, other string) bool { return other == holder && which(ip) })
	return b.write(held)
}

// write replaces the file in one step, so a crash leaves the old file or the new one. The server
// answers a call only after write. So it never forgets an address that it has handed out.
func (b *book) write(held map[netip.Addr]string) error {
	if maps.Equal(held, b.held) {
		return nil
	}
	text, err := json.MarshalIndent(held, "", "\t")
	if err != nil {
		return err
	}
	if err := writeSynced(b.file+".new", text); err != nil {
		return err
	}
	if err := os.Rename(b.file+".new", b.file); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(b.file))
	if err != nil {
		return err
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return err
	}
	b.held = held
	return nil
}

func writeSynced(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

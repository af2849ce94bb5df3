package attest

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// The names that cosign reads and writes.
const (
	simpleSigning       = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	passwordVariable    = "COSIGN_PASSWORD"
)

// LoadKey reads a private key in PEM: a key of "cosign generate-key-pair", whose password is in
// COSIGN_PASSWORD, or a key in PKCS #8, PKCS #1 or SEC 1.
func LoadKey(path string) (signature.Signer, error) {
	signer, err := signature.LoadSignerFromPEMFile(path, crypto.SHA256, func(bool) ([]byte, error) {
		return []byte(os.Getenv(passwordVariable)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("key %s: %w (a key of cosign needs its password in %s)", path, err, passwordVariable)
	}
	return signer, nil
}

// Sign signs the object that ref names, as cosign does. The result is an image that is stored next
// to that object.
func Sign(signer signature.Signer, ref name.Digest) (v1.Image, error) {
	text, err := json.Marshal(payload.Cosign{Image: ref})
	if err != nil {
		return nil, err
	}
	sig, err := SignText(signer, text)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", ref, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(text, simpleSigning), Annotations: map[string]string{signatureAnnotation: sig},
	})
}

// SignatureTag is the tag at which cosign looks for the signature of ref.
func SignatureTag(ref name.Digest) (name.Tag, error) {
	hash, err := v1.NewHash(ref.DigestStr())
	if err != nil {
		return name.Tag{}, err
	}
	return ref.Tag(hash.Algorithm + "-" + hash.Hex + ".sig"), nil
}

// SignText returns the signature of a file in the format of "cosign verify-blob --signature".
func SignText(signer signature.Signer, text []byte) (string, error) {
	sig, err := signer.SignMessage(bytes.NewReader(text))
	return base64.StdEncoding.EncodeToString(sig), err
}

// SignStatement puts an in-toto statement into a signed envelope (DSSE).
func SignStatement(signer signature.Signer, statement []byte) ([]byte, error) {
	return dsse.WrapSigner(signer, PayloadType).SignMessage(bytes.NewReader(statement))
}

// PublicKey returns the public key, as PEM, with which others verify the signatures of signer.
func PublicKey(signer signature.Signer) ([]byte, error) {
	key, err := signer.PublicKey()
	if err != nil {
		return nil, err
	}
	return cryptoutils.MarshalPublicKeyToPEM(key)
}

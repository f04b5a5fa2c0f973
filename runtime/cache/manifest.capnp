# Description of an artifact, or of a failed attempt to make one, stored beside the artifact. New versions only add
# fields.
@0xc2f6a1d09b7e4853;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("lockstep::cache::wire");

struct Manifest {
  version @0 :UInt32;
  backend @1 :Text;
  step @2 :Text;           # for messages
  fields @3 :List(Field);  # of the key, in its order
  size @4 :UInt64;         # of the artifact, bytes
  sha256 @5 :Text;         # of the artifact, hexadecimal
  madeAt @6 :Int64;        # milliseconds since 1970
  tookS @7 :Float64;       # seconds
  build @8 :Text;          # of the program that made it
  host @9 :Text;           # where
  failure :union {
    none @10 :Void;
    error @11 :Failure;    # no artifact was made
  }
}

struct Field {
  name @0 :Text;
  value @1 :Text;
}

struct Failure {
  kind @0 :Text;           # "unsupported", …
  message @1 :Text;
}

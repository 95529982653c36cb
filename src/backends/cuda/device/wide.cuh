// Several narrow elements as one: moving looks at no types.

struct alignas(16) Wide {
  u64 low, high;
};
